"""
Which weight store belongs to a module: passes that need the weights' values find it here.

A module without one (plain text in mlc-opt) is rewritten symbolically: what would need a weight's value is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from mlc.support.weights import WeightStore

_STORES: WeakKeyDictionary[ModuleOp, Any] = WeakKeyDictionary()


def attach_store(module: ModuleOp, store: WeightStore) -> None:
    """Make `store` the one that the module's `graph.param`s name; passes may add entries to it."""
    _STORES[module] = store


def store_of(module: ModuleOp) -> WeightStore | None:
    """The module's weight store, if it has one."""
    return _STORES.get(module)
