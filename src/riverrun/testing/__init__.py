"""The test driver: a program's kernels without a JVM."""

from riverrun.testing.driver import Driver

__all__ = ["Driver"]
