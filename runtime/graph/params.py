"""Weights of a graph by name, as safetensors: a file, its bytes, or a dict of arrays."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from mlc.runtime.arrays import Array, as_array
from mlc.support.scratch import scratch_directory
from mlc.support.weights import WeightStore

Params: TypeAlias = "Mapping[str, Any] | bytes | bytearray | str | os.PathLike[str] | None"
"""Arrays by name, the bytes of a safetensors file, or its path."""


def read_params(params: Params) -> dict[str, Array]:
    """The arrays by name; those of a file are views of it. UserError for a file that is no safetensors."""
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return {name: as_array(f"parameter '{name}'", value) for name, value in params.items()}
    if isinstance(params, bytes | bytearray):
        with scratch_directory() as directory:  # a mapped file stays readable when its name is gone
            (directory / "params.safetensors").write_bytes(params)
            return read_params(directory / "params.safetensors")
    store = WeightStore.load(Path(params))
    return {name: store.array(name) for name in store}


def save_params(params: Params, path: "str | os.PathLike[str] | None" = None) -> bytes:
    """The bytes of a safetensors file with these arrays; with a path they are written there and not returned."""
    store = WeightStore()
    for name, array in read_params(params).items():
        store.add(name, array)
    if path is not None:
        store.save(path if isinstance(path, str) else Path(path))
        return b""
    with scratch_directory() as directory:
        store.save(directory / "params.safetensors")
        return (directory / "params.safetensors").read_bytes()


__all__ = ["Params", "read_params", "save_params"]
