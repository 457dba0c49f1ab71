"""The structure of a module's results: names of its tensors, and registration of dataclasses with torch."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from mlc.frontends.common.untyped import is_sequence

PathStep = tuple[str, str]
"""One step into a structure: the separator before it, and its word: ("_", "0"), (".", "logits")."""

DICTIONARIES = (dict, OrderedDict, defaultdict)


class Fields(dict[str, Any]):
    """The named parts of an object whose class need not be importable where the file is read."""


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


def _paths(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> Iterator[tuple[PathStep, ...]]:
    """The steps to each leaf, in order."""
    if spec.is_leaf():
        yield ()
        return
    first = 0
    for step, child in zip(_steps(spec, leaves), spec.children(), strict=True):
        for path in _paths(child, leaves[first : first + child.num_leaves]):
            yield (step, *path)
        first += child.num_leaves


def _steps(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> list[PathStep]:
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
    The names of the `count` children of a structure by its context: keys or names of fields; None if it has none.

    The context is what `flatten` returns with the children: keys of a dict, the class of a named tuple, and for other
    classes often the names of the parts, alone or followed by more (as with `register_dataclass`).
    """
    if kind is defaultdict:
        context = context[1]
    elif isinstance(context, type):
        context = getattr(context, "_fields", None)
    for names in (context, context[0] if is_sequence(context) and context else None):
        if is_sequence(names) and len(names) == count:
            if kind in DICTIONARIES or _are_fields(names):
                return list(names)
    return None


def _are_fields(names: Sequence[Any]) -> bool:
    return all(isinstance(name, str) and name.isidentifier() for name in names) and len(set(names)) == len(names)


def _asked(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> list[Any] | None:
    """
    The keys that `flatten_with_keys` of a class gives for an object rebuilt from the leaves.

    None for a class without it, or if this object has other parts than the one that was traced.
    """
    known = pytree.SUPPORTED_NODES.get(spec.type)
    if known is None or known.flatten_with_keys_fn is None:
        return None
    try:
        pairs, _ = known.flatten_with_keys_fn(pytree.tree_unflatten(list(leaves), spec))
        keys = [getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))) for key, _ in pairs]
    except Exception:  # the class is the user's, and only names depend on it
        return None
    return keys if len(keys) == spec.num_children else None


def register_dataclasses(value: Any) -> None:
    """Register the dataclasses in a structure with torch.export; fields that are None are dropped."""
    kind = cast("type[Any]", type(value))
    if dataclasses.is_dataclass(kind) and kind not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")
    if kind in pytree.SUPPORTED_NODES:
        for part in pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]:
            register_dataclasses(part)
    elif isinstance(value, Mapping):
        for part in cast("Mapping[Any, Any]", value).values():
            register_dataclasses(part)
    elif is_sequence(value):
        for part in value:
            register_dataclasses(part)


@contextmanager
def known_dataclasses(module: torch.nn.Module, given: Any) -> Generator[None]:
    """A context in which the dataclasses among a module's arguments and results are registered with torch."""
    register_dataclasses(given)
    hook = module.register_forward_hook(lambda module, args, output: register_dataclasses(output))
    try:
        yield
    finally:
        hook.remove()


__all__ = ["Fields", "known_dataclasses", "leaf_names", "names_of", "unused"]
