"""Models and their versions: discovery, loading, leases and unloading."""
