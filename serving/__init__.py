"""The online side: a gRPC service that speaks TensorFlow Serving's protocol."""
