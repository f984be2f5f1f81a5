"""Transactions of a database, applied as one: rows of several tables wait for each other."""
