"""Source, exchange, writer and session: the only place for Spark's own classes."""
