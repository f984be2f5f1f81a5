"""Kafka as a service: topics, what is in them, who has read how far, and sending to them."""
