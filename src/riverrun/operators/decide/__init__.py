"""Decisions: commands in, events out, by the rules of an aggregate."""
