"""
`executor="auto"`: AOT where it compiles the model, else the vm, with one warning that says why.

Calls of an AOT model with a size of 0 go to the vm, too, unless `symbols=` says which sizes there are.

AOT refuses a model where its code depends on what only the data says. Such a refusal is an error of the kind
NeedsValues; one of an open size is known by this: with a number in the place of the size there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.driver.models.compile import build_artifact, opened
from mlc.runtime.symbolic import SymbolicExecutable
from mlc.support.errors import UnsupportedOps, UserError, warn
from mlc.support.scratch import remove_scratch

if TYPE_CHECKING:
    from mlc.driver.cache import Cache
    from mlc.driver.models.load import Source
    from mlc.driver.options import Options
    from mlc.runtime.executable import Executable
    from mlc.runtime.vm.executable import VmExecutable

Shapes = Mapping[str, Sequence[Any]]
Symbols = Mapping[str, Sequence[int]]
_TRIED_SIZES = (8, 32, 1, 2)
"""Numbers that stand for the open sizes of a model, to see whether these are what AOT refuses."""


@dataclass(frozen=True)
class VmSettings:
    """Options, the cache, functions that are kept, and the limit of memory in bytes."""

    options: Options
    store: Cache | None
    functions: int = 128
    memory: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("vm_functions", self.functions), ("vm_memory", self.memory)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
                raise UserError(f"expected {name} to be a number from 1 on, but got {value!r}")


def chosen(
    model: Source, executor: str, settings: VmSettings, shapes: Shapes | None, symbols: Symbols | None
) -> Executable:
    """The executable of "auto" or "vm"."""
    try:
        if executor == "auto":
            made = opened(model, settings.options, "aot", settings.store, shapes, symbols)
            if isinstance(made, SymbolicExecutable) and is_onnx(model) and not symbols:
                made.for_empty = cache(lambda: _of_empty(model, settings, shapes))
            return made
        return _vm(model, settings, shapes, symbols)
    except UserError as error:
        found = instead_of_aot(error, model, executor, settings, shapes, symbols)
        if found is None:
            raise
        return found


def instead_of_aot(
    error: UserError,
    model: Source,
    executor: str,
    settings: VmSettings,
    shapes: Shapes | None,
    symbols: Symbols | None = None,
) -> VmExecutable | None:
    """The vm of a model for which AOT raised this error; None where the vm cannot run the model either."""
    found = None if is_onnx(model) else _recursive(model, settings, shapes)
    why: object = "a function of it calls itself"
    if found is None:
        if not opens(error, model, shapes, symbols):
            return None
        found, why = _open(model, settings, shapes), error
    if executor == "auto":
        warn(None, f"the vm runs the model, since AOT code of it cannot be made: {why}")
    return found


def _of_empty(model: Source, settings: VmSettings, shapes: Shapes | None) -> VmExecutable:
    """The vm that runs the calls of an AOT model with a size of 0."""
    warn(
        None, "the vm runs calls with a size of 0, which AOT code does not admit; symbols= may declare a size from 0 on"
    )
    return _open(model, settings, shapes)


def _vm(model: Source, settings: VmSettings, shapes: Shapes | None, symbols: Symbols | None) -> VmExecutable:
    """The vm of a model that AOT compiles; other sizes than those that it is compiled for are resolved."""
    from mlc.driver.vm.compiler import Compiler, known_vm, with_artifact

    options = settings.options
    artifact, own = build_artifact(model, options, shapes, settings.store, symbols=symbols)
    if not (artifact.model.get("symbols") and is_onnx(model)):
        return known_vm(artifact, own, options, settings.memory)
    try:
        executable = _open(model, settings, shapes)
    except BaseException:
        if own:
            remove_scratch(artifact.path)
        raise
    with_artifact(executable, artifact, own, Compiler(options, settings.store, executable.pool))
    return executable


def _open(model: Source, settings: VmSettings, shapes: Shapes | None) -> VmExecutable:
    from mlc.driver.vm.compiler import open_vm

    return open_vm(model, settings.options, settings.store, shapes, settings.functions, settings.memory)  # pyright: ignore[reportArgumentType] `opens` has seen that it is an ONNX model


def _recursive(model: Source, settings: VmSettings, shapes: Shapes | None) -> VmExecutable | None:
    """The vm of a module with functions that call themselves; None of another."""
    from mlc.driver.models.compile import load_model
    from mlc.driver.vm.compiler import recursive_vm
    from mlc.driver.vm.graph_functions import functions_of, recursive

    try:
        loaded = load_model(model, shapes)
    except UserError:
        return None
    if "main" not in recursive(functions_of(loaded)):
        return None
    return recursive_vm(loaded, settings.options, settings.store, settings.memory)


def is_onnx(model: object) -> bool:
    """Whether a source is an ONNX model, whose parts can be imported again."""
    if isinstance(model, str | Path):
        return Path(model).suffix == ".onnx"
    return type(model).__name__ == "ModelProto"


def opens(error: UserError, model: Source, shapes: Shapes | None, symbols: Symbols | None = None) -> bool:
    """Whether AOT compilation failed because the code depends on values or sizes that are known only at a call."""
    if not is_onnx(model) or isinstance(error, UnsupportedOps):
        return False
    from mlc.frontends.common.source_node import NeedsValues

    return isinstance(error, NeedsValues) or (not symbols and _closes_with_sizes(model, shapes))


def _closes_with_sizes(model: Any, shapes: Shapes | None) -> bool:
    """Whether the import refuses the open sizes of a model, and takes numbers in their place."""
    if not _is_refused(model, shapes):
        return False
    from mlc.driver.vm.compiler import specs_of
    from mlc.driver.vm.onnx_functions import function_of

    specs = specs_of(function_of(model), shapes or {})[0]
    if not any(isinstance(size, str) for spec in specs for size in spec.shape or ()):
        return False
    for number in _TRIED_SIZES:  # not every number need fit the model
        sizes = {s.name: [n if isinstance(n, int) else number for n in s.shape] for s in specs if s.shape is not None}
        if not _is_refused(model, {**(shapes or {}), **sizes}):
            return True
    return False


def _is_refused(model: Any, shapes: Shapes | None) -> bool:
    """Whether the import refuses a model for good."""
    from mlc.frontends.common.source_node import NeedsValues
    from mlc.frontends.onnx.importer import import_model

    try:
        import_model(model, shapes)
    except NeedsValues:
        return False
    except UserError:
        return True
    return False


__all__ = ["VmSettings", "chosen", "instead_of_aot", "is_onnx", "opens"]
