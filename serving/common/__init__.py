"""Small parts that all folders share."""
