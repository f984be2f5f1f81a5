"""Readers of search indexes: `riverrun.search.Index("articles")`."""

from riverrun.search.index import Found, Hit, Index
from riverrun.search.marks import Fragment

__all__ = ["Found", "Fragment", "Hit", "Index"]
