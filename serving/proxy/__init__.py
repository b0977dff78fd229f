"""Serves models that other TensorFlow Serving servers compute: the option `backend`."""
