"""Windows: one file per kind."""
