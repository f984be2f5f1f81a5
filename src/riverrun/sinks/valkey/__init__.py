"""Caches in Valkey or Redis."""
