"""Models without embeddings that are fitted in seconds, to compare a trained model with."""
