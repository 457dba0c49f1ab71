"""`mlc.interpret`: run a function of a module of any level on arrays, in the reference interpreters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.dialects.graph.store import attach_store, store_of
from mlc.dialects.syntax.source import parse_placed
from mlc.driver.models.bind_sizes import copied
from mlc.driver.models.load import load, read_text, weights_beside
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.interp.graph import Weights
from mlc.support.diagnostics import Place, place_of_op
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.validation.interpret import GivenWeights, SeededWeights, interpret_function

if TYPE_CHECKING:
    from mlc.interp.observe import Observe

ModuleSource = ModuleOp | Model | str | PathLike[str]
"""A module or a model in memory, the path of a .mlir, .onnx or .pt2 file, or the text of a module."""
WeightSource = WeightStore | Mapping[str, Any] | str | PathLike[str]
"""A weight store, arrays by name, or the path of a .safetensors file."""


@dataclass
class LoadedModule:
    """A module of any level, with its weights and the places of its operations."""

    module: ModuleOp
    weights: WeightStore | None = None
    positions: dict[Operation, Place] = field(default_factory=dict)
    name: str = "<text>"


def interpret(
    module: ModuleSource,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    function: str | None = None,
    weights: WeightSource | None = None,
    wide: bool = False,
    trace: Callable[[Operation, Sequence[Any]], None] | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """
    The outputs, by name, of a function of a module of any level on arrays: a ModuleOp, a Model, text, or a file.

    Graph, te and loop functions and @main on buffers run in the reference interpreters, a te.func with a schedule as
    scheduled, llvm kernels natively. `inputs` are arrays by name, or in order. `function` is by default @main, or the
    only one. `weights` are by default those of the model, or of the .safetensors beside the file. With `wide`, floats
    are computed in f64. `trace(op, results)` is called after each operation (in loops: each time), for a store with
    the value that it writes. With a `seed`, inputs and weights that are not given are random.

    Raises UserError for text that is wrong, for inputs that do not fit, and for a function that cannot be run.
    """
    return run_loaded(load_module(module), inputs, function, weights, wide, trace, seed)


def run_loaded(
    loaded: LoadedModule,
    inputs: Mapping[str, Any] | Sequence[Any],
    function: str | None = None,
    weights: WeightSource | None = None,
    wide: bool = False,
    trace: Observe | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """`interpret` of a module that has been loaded; errors about an operation say where it stands."""
    chosen = weights_of(loaded, weights, seed)
    try:
        return interpret_function(
            loaded.module, inputs, function=function, weights=chosen, wide=wide, observe=trace, seed=seed
        )
    except UserError as error:
        place = place_of_op(error.op, Place(""), loaded.positions)
        raise UserError(f"{place}: {error}" if place.line else str(error)) from error


def weights_of(loaded: LoadedModule, weights: WeightSource | None, seed: int | None) -> Weights | None:
    """Where a run takes its weights from: those given, the module's own, random ones, or nowhere."""
    if isinstance(weights, str | PathLike):
        return WeightStore.load(Path(weights))
    if isinstance(weights, Mapping):
        return GivenWeights(weights)
    own = weights or loaded.weights
    if own is None and seed is not None:
        return SeededWeights(loaded.module, seed)
    return own


def after_pipeline(loaded: LoadedModule, pipeline: str, weights: str | None = None) -> LoadedModule:
    """A module after passes, which may fold its weights; the weights that were loaded are left as they are."""
    store = weights_of(loaded, weights, None)
    if isinstance(store, WeightStore):
        model = copied(Model(loaded.module, store))
        loaded = LoadedModule(model.module, model.weights, name=loaded.name)
        attach_store(model.module, model.weights)
    run_passes(loaded.module, make_context(), [pipeline], verify=True, blame=True)
    return loaded


def load_module(
    source: ModuleSource,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> LoadedModule:
    """A module of any level from memory, text or a file; `shapes` and `symbols` of a model's inputs as in mlc.load."""
    if isinstance(source, ModuleOp):
        return LoadedModule(source, store_of(source), name="<module>")
    if isinstance(source, Model):
        return LoadedModule(source.module, source.weights, name="<model>")
    if isinstance(source, str) and "{" in source:
        return _parsed(source, "<text>")
    if not isinstance(source, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a module, a model, text or a path, but got {type(source).__name__}")
    path = Path(source)
    if path.suffix in (".onnx", ".pt2") or shapes or symbols:
        model = load(path, shapes, symbols)
        return LoadedModule(model.module, model.weights, name=str(path))
    if path.suffix != ".mlir":
        raise UserError(f"{path}: expected a file that ends in .mlir, .onnx or .pt2")
    return _read(path)


def _read(path: Path) -> LoadedModule:
    """The module of an .mlir file of any level, and the weights beside it."""
    loaded = _parsed(read_text(path), str(path))
    loaded.weights = weights_beside(path)
    return loaded


def _parsed(text: str, name: str) -> LoadedModule:
    module, positions = parse_placed(text, name, make_context())
    return LoadedModule(module, None, positions, name)


__all__ = [
    "LoadedModule",
    "ModuleSource",
    "WeightSource",
    "after_pipeline",
    "interpret",
    "load_module",
    "run_loaded",
    "weights_of",
]
