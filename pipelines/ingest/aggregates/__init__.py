"""Features over time: counts, rates and the like of earlier events, in batch and online."""
