"""The servers of the local stack: broker, PostgreSQL, Spark cluster; Java and jars."""
