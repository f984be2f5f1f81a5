"""From a plan to a program: named passes, then every way between two exchanges as one query."""
