"""Reports on served rows with their outcomes, and compares two versions that served them."""
