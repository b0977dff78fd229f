"""Values between their forms: protobuf, JSON, Arrow, Python and NumPy."""
