"""The structure of what a module returns: names of its tensors, and dataclasses that torch does not know yet."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

Step = tuple[str, str]
"""One step into a structure: what joins it to the steps before, and its word: ("_", "0"), (".", "logits")."""

DICTIONARIES = (dict, OrderedDict, defaultdict)


class Fields(dict[str, Any]):
    """Named parts of a class that a file names, but that need not be importable where the file is read."""


pytree.register_pytree_node(
    Fields,
    lambda fields: (list(fields.values()), list(fields)),
    lambda values, names: Fields(zip(names, values, strict=True)),
    serialized_type_name="mlc.Fields",
)


def leaf_names(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> list[str]:
    """
    The name of each leaf of a structure, all of them different.

    `output` for a single leaf, `output_0_1` by the places in tuples and lists, the keys of dicts, the fields of
    dataclasses and other classes: `logits`, `cache_0`, `encoder.last_hidden_state`, `output_0.sample`.
    """
    names: list[str] = []
    for path in _paths(spec, leaves):
        name = "".join(joint + word for joint, word in path)
        name = name[1:] if path and not path[0][1].isdigit() else "output" + name
        names.append(unused(name, names))
    return names


def unused(name: str, taken: Sequence[str]) -> str:
    """A name, or the first of `name.2`, `name.3`, ... that is not taken."""
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}.{count}"
    return unique


def _paths(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> Iterator[tuple[Step, ...]]:
    """The steps to each leaf, in order."""
    if spec.is_leaf():
        yield ()
        return
    first = 0
    for step, child in zip(_steps(spec, leaves), spec.children(), strict=True):
        for path in _paths(child, leaves[first : first + child.num_leaves]):
            yield (step, *path)
        first += child.num_leaves


def _steps(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> list[Step]:
    """The step to each child of a structure."""
    count = spec.num_children
    if spec.type in (tuple, list, deque):
        return [("_", str(index)) for index in range(count)]
    keys = names_of(spec.type, spec.context, count) or _asked(spec, leaves)
    if keys is None:
        return [("_", str(index)) for index in range(count)]
    return [("_" if spec.type in DICTIONARIES or str(key).isdigit() else ".", str(key)) for key in keys]


def names_of(kind: Any, context: Any, count: int) -> list[Any] | None:
    """
    What the context of a structure says about its `count` children, where it says anything: keys or names of fields.

    The context is what a `flatten` returns beside the children: keys of a dict, the class of a named tuple, and for
    other classes often the names of the parts, alone or followed by other facts (as `register_dataclass` has it).
    """
    if kind is defaultdict:
        context = context[1]
    elif isinstance(context, type):
        context = getattr(context, "_fields", None)
    for names in (context, context[0] if isinstance(context, list | tuple) and context else None):
        if isinstance(names, list | tuple) and len(names) == count:
            if kind in DICTIONARIES or _are_fields(names):
                return list(names)
    return None


def _are_fields(names: Sequence[Any]) -> bool:
    return all(isinstance(name, str) and name.isidentifier() for name in names) and len(set(names)) == len(names)


def _asked(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> list[Any] | None:
    """
    The keys that a class gives its parts by its `flatten_with_keys`, called with an object rebuilt from the leaves.

    None for a class that has none, or whose parts are others for this object than for the one that was traced.
    """
    known = pytree.SUPPORTED_NODES.get(spec.type)
    if known is None or known.flatten_with_keys_fn is None:
        return None
    try:
        pairs, _ = known.flatten_with_keys_fn(pytree.tree_unflatten(list(leaves), spec))
        keys = [getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))) for key, _ in pairs]
    except Exception:  # the class is the user's, and names are all that is asked of it
        return None
    return keys if len(keys) == spec.num_children else None


def register_dataclasses(value: Any) -> None:
    """Make the dataclasses in a structure known to torch.export; their fields that are None are left out."""
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")
    if kind in pytree.SUPPORTED_NODES:
        for part in pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]:
            register_dataclasses(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            register_dataclasses(part)
    elif isinstance(value, tuple | list):
        for part in value:
            register_dataclasses(part)


@contextmanager
def known_dataclasses(module: torch.nn.Module, given: Any) -> Iterator[None]:
    """While a module is exported, dataclasses among its arguments and in what it returns become known to torch."""
    register_dataclasses(given)
    hook = module.register_forward_hook(lambda module, args, output: register_dataclasses(output))
    try:
        yield
    finally:
        hook.remove()


__all__ = ["Fields", "known_dataclasses", "leaf_names", "names_of", "unused"]
