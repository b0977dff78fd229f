"""Columns of events: kinds of Arrow types, times, missing values and labels."""
