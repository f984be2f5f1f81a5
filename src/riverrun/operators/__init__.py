"""Operators: one file, or one small folder, per kind of step with state."""
