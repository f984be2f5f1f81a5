"""The test driver: a program's kernels without a JVM, with streams drawn as tables."""

from riverrun.testing.drawn import Lines
from riverrun.testing.driver import Driver

__all__ = ["Driver", "Lines"]
