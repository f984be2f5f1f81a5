"""What all that is plugged in must hold, as cases for pytest: derive a class, and run it."""
