"""Views: tables that can be looked up, with the log of their changes, in SQLite or PostgreSQL."""
