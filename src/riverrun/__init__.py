"""riverrun: stream processing for Python on Apache Spark."""
