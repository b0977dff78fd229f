"""TensorFlow Serving's REST API: JSON in and out, in front of the same answers as gRPC's."""
