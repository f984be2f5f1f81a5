"""Queues: records of a topic that are taken, done or given back one by one, by any worker."""
