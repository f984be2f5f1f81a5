"""The servers of the local stack: broker, PostgreSQL, Kafka Connect, Spark; Java and jars."""
