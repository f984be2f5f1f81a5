"""Where records come from: batches planned, ranges read as lots, originals read again."""
