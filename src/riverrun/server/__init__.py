"""The server: views, topics and questions over HTTP, beside any number of applications."""
