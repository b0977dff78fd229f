"""What computes a version's signatures: TensorFlow in this process, or other servers."""
