"""What executors fork their Python workers from: everything is imported once, before the first."""

from __future__ import annotations

from pyspark import daemon

from riverrun.spark.zygote import PRELOAD, settle


def main() -> None:
    for module in PRELOAD:
        __import__(module)
    settle()
    daemon.manager()


if __name__ == "__main__":
    main()
