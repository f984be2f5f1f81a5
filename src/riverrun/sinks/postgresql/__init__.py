"""Tables in PostgreSQL, exactly once."""
