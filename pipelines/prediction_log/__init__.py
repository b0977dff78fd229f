"""Uses of the service's prediction log: warm-up files, drift and skew."""
