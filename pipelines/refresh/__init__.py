"""The daily refresh of a served run: train on what was served, publish, promote or roll back."""
