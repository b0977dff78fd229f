"""What the parts of attention compute, slowly and obviously, one file a slot."""
