"""Ray, an extra: the engine of a cluster, and training in several workers on it."""
