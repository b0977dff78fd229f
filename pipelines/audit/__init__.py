"""The attention of a trained model, and what its scores come from, on held-out rows."""
