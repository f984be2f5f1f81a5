"""Kafka topics: at least once, or exactly once by transactions."""
