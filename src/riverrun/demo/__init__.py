"""The demonstration: a program, and traffic for it."""
