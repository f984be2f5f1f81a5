"""Kafka and files as sources; what is asked of Kafka as a service."""
