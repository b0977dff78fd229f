"""The messages of our own service; `scoring.proto` says what they mean."""
