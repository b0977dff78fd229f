"""SavedModels computed by TensorFlow, and their towers by XLA."""
