"""What all that is plugged in must hold, as cases for pytest: derive a class, and run it."""

from riverrun.testing.contracts.formats import FormatContract
from riverrun.testing.contracts.operators import OperatorContract
from riverrun.testing.contracts.sinks import SinkContract, Stand
from riverrun.testing.contracts.sources import SourceContract

__all__ = ["FormatContract", "OperatorContract", "SinkContract", "SourceContract", "Stand"]
