"""From chunks that leave the last exchange to rows of outputs, as records and lines; alerts."""
