"""Change capture: tables of a database as topics, a snapshot first, then every change."""
