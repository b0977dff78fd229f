"""Seven days of the daily loop on a simulated market."""
