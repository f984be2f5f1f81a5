"""Forgetting: personal fields are encrypted by a key per subject, which can be destroyed.

`riverrun.forgetting.Keys` reads what is encrypted; a store of keys of one's own, such as a service
for keys, is a `KeyStore`. See docs/forgetting.md.
"""

from riverrun.forgetting.keys import Keys, Read
from riverrun.forgetting.places import KeyPlace
from riverrun.forgetting.store import KeyStore

__all__ = ["KeyPlace", "KeyStore", "Keys", "Read"]
