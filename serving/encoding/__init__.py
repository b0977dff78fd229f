"""Conversion of values between protobuf, Arrow, Python and NumPy."""
