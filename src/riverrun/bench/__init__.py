"""Measurements: events per second, what delivery and joins cost, memory over time."""
