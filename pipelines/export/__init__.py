"""A trained model as a SavedModel of raw values, checked against the training path."""
