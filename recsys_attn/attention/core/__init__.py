"""What all attention shares: layouts of heads, positions, pairs, and the call of a mechanism."""
