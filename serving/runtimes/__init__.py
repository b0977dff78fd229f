"""What computes a version's signatures: TensorFlow, ONNX Runtime, or other servers."""
