"""Processors: the user's own class as a step."""
