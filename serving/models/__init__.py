"""Models and their versions: found, loaded, leased to requests and unloaded."""
