"""Full-text search indexes, kept by tantivy."""
