"""Stored-query search: queries wait, documents pass by."""
