"""A sampled log of requests and scores: TensorFlow Serving's `PredictionLog` inside Parquet."""
