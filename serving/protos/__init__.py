"""The messages of this project's service; `scoring.proto` describes them."""
