"""Lookups: rows of a stream get columns of a table that is in a database."""
