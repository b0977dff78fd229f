"""One server put together: its start, its signals and its end."""
