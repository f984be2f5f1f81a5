"""What all that is plugged in must hold, as cases for pytest: derive a class, and run it."""

from riverrun.testing.contracts.operators import OperatorContract
from riverrun.testing.contracts.sinks import SinkContract, Stand

__all__ = ["OperatorContract", "SinkContract", "Stand"]
