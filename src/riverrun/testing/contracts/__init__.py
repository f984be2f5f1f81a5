"""What all that is plugged in must hold, as cases for pytest: derive a class, and run it."""

from riverrun.testing.contracts.operators import OperatorContract

__all__ = ["OperatorContract"]
