"""Alerts: rows in groups, and what is told of each group, and when."""
