"""Live rules: event patterns that are added, changed and removed while a program runs."""
