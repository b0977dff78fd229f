"""The server's configuration: options, files and text protos."""
