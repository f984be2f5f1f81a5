"""The archive: records of topics as Parquet, beyond the time that topics keep them."""
