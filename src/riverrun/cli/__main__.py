"""`python -m riverrun.cli`."""

from riverrun.cli import main

main()
