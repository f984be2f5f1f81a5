"""Joins: one file per kind."""
