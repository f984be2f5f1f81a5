"""Event patterns: rows of a key matched, in the order of their time, by a regular expression."""
