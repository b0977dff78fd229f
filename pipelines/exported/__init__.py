"""Exported models, called through their own signatures: audit, attention, labelled rows."""
