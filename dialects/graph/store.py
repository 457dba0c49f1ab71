"""
Associates modules with their weight stores, for passes that need the weights' values.

In a module without a store (plain text in mlc-opt), rewrites that need a weight's value do not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from mlc.support.weights import WeightStore

_STORES: WeakKeyDictionary[ModuleOp, Any] = WeakKeyDictionary()


def attach_store(module: ModuleOp, store: WeightStore) -> None:
    """Attach the store to which the module's `graph.param`s refer; passes may add entries to it."""
    _STORES[module] = store


def store_of(module: ModuleOp) -> WeightStore | None:
    """The module's weight store, if it has one."""
    return _STORES.get(module)
