"""The only place that knows which Keras backend runs."""
