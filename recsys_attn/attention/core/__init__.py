"""Shared by all attention: layouts of heads, masks, positions and running sums."""
