"""The commands as functions, for notebooks and workflow engines."""
