"""The runtimes that compute signatures: TensorFlow in this process."""
