"""What is bisected and reduced: a model or IR of any level as a Subject, and the passes that go down from its level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.dialects import loop, te
from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.kernels.kernel import kernel_passes
from mlc.driver.models.bind_sizes import copied
from mlc.driver.models.load import load
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, parse_pipeline
from mlc.frontends.common.model import Model
from mlc.support.errors import UserError
from mlc.support.files import read_file
from mlc.support.limits import limits
from mlc.support.weights import WeightStore
from mlc.validation.reduction.subject import Subject


def load_subject(
    path: str | Path,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Subject:
    """
    A model (.onnx, .pt2), or IR of any level (.mlir), with the weights of the .safetensors file beside it.

    A text without such a file runs with random weights. UserError for a file that cannot be read or parsed.
    """
    path = Path(path)
    if path.suffix == ".mlir" and not shapes:
        text = read_file(path, limits.input_bytes).decode(errors="replace")
        module = parse_module(text, str(path), make_context())
        beside = path.with_suffix(".safetensors")
        return subject_of(Model(module, WeightStore.load(beside) if beside.exists() else WeightStore()))
    return subject_of(copied(load(path, shapes, symbols)))


def subject_of(model: Model, inputs: Sequence[Any] | None = None) -> Subject:
    """The subject that a model is, run on these arrays or on random ones."""
    weights = model.weights if len(model.weights) else None
    if weights is not None:
        attach_store(model.module, weights)
    return Subject(model.module, weights, None if inputs is None else list(inputs))


def inputs_of(subject: Subject, given: Mapping[str, Any]) -> list[Any] | None:
    """The arrays by name in the order of @main's arguments; random ones for the others, None where none is given."""
    if not given:
        return None
    from mlc.validation.execute import types_of
    from mlc.validation.inputs import random_arrays

    function = subject.entry_function
    if not isinstance(function, FuncOp):
        raise UserError("expected a function @main on the graph level, which inputs are for")
    names = Model(subject.module, WeightStore()).inputs
    hints = [arg.name_hint or "" for arg in function.body.block.args]
    known = [*names, *hints]
    for name in given:
        if name not in known:
            raise UserError(f"expected an input among {', '.join(names)}, but got '{name}'")
    found: list[Any] = []
    for name, hint, arg in zip(names, hints, function.body.block.args, strict=True):
        types = types_of([arg.type])
        array = given.get(name, given.get(hint))
        if types is None:
            raise UserError(f"expected a static shape of input '{name}', but got {arg.type}; give sizes with --shape")
        found.append(random_arrays(types, 0)[0] if array is None else array)
        if (found[-1].shape, found[-1].dtype.name) != types[0]:
            want, got = types[0], found[-1]
            raise UserError(
                f"expected input '{name}' of shape {want[0]} and dtype {want[1]}, but got {got.shape} {got.dtype.name}"
            )
    return found


def passes_of(subject: Subject, options: Options, pipeline: str | None = None) -> list[ModulePass]:
    """The passes of a pipeline text; without one, those that compile IR of the subject's level to the llvm dialect."""
    if pipeline is not None:
        return parse_pipeline(pipeline, options.settings())
    kinds = {type(op) for op in subject.module.body.block.ops}
    if FuncOp in kinds:
        return [*options.pipeline("graph"), *kernel_passes(options)]
    if te.FuncOp in kinds:
        return kernel_passes(options, "te")
    if loop.FuncOp in kinds:
        return kernel_passes(options, "loop")
    raise UserError("expected functions of the graph, te or loop level; other IR needs a pipeline (-p)")
