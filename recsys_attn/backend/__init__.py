"""Code that depends on the Keras backend."""
