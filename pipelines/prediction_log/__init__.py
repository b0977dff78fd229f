"""What is made of the scoring service's prediction log: warm-up files, and drift and skew."""
