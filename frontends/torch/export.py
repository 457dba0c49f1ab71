"""From a torch.export program, or a module and its arguments, to a model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec

from mlc.frontends.common.model import Model
from mlc.frontends.common.sizes import check_shapes
from mlc.frontends.common.values import Value
from mlc.frontends.torch.guards import conditions, was_traced_here
from mlc.frontends.torch.importer import AtenImporter, check_calls
from mlc.frontends.torch.lengths import OpenLengths
from mlc.frontends.torch.saved.text import read_condition
from mlc.frontends.torch.sizes import expression
from mlc.frontends.torch.structure import known_dataclasses, leaf_names, unused
from mlc.frontends.torch.table import decompositions
from mlc.support.errors import UnsupportedOps, UserError

Shapes = Mapping[str, Sequence[int]]
SOURCE = "torch"


def from_torch(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    shapes: Shapes | None = None,
) -> Model:
    """
    The model of a module on arguments like these, by torch.export; its weights are shared.

    `dynamic_shapes` is torch.export's: sizes that stay symbolic unless `shapes` gives them.
    """
    if not isinstance(module, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a torch.nn.Module, but got {type(module).__name__}; mlc.load takes programs")
    given = tuple(args) if isinstance(args, Sequence) else (args,)  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
    try:
        with torch.no_grad(), OpenLengths(), known_dataclasses(module, (given, dict(kwargs or {}))):
            program = torch.export.export(
                module, given, dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
            )
    except Exception as error:
        raise UserError(f"{SOURCE}: torch.export failed: {error}") from error
    return import_program(program, shapes)


def import_file(path: Path, shapes: Shapes | None = None) -> Model:
    """The model of a .pt2 file of torch.export.save; no code in the file is run (saved/)."""
    from mlc.frontends.torch.saved.program import load_program

    saved = load_program(path)
    try:
        return import_program(saved.program, shapes, saved.conditions)
    except UnsupportedOps as error:
        raise UnsupportedOps(str(path), error.ops) from error


def import_program(
    program: ExportedProgram, shapes: Shapes | None = None, assumed: Sequence[str] | None = None
) -> Model:
    """
    The model of a torch.export program; `shapes` gives sizes that are symbolic in it.

    `assumed` has the guards of the trace as text, for a program that does not have them itself.
    """
    check_shapes(shapes)
    taken = conditions(size for facts in _tensors(program).values() for size in facts.shape)
    if not was_traced_here(size for facts in _tensors(program).values() for size in facts.shape):
        texts = getattr(program, "_guards_code", ()) if assumed is None else assumed
        taken += _read_conditions(texts, _tensors(program))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)  # torch's own, of its copies
        try:
            program = program.run_decompositions(decompositions())  # pyright: ignore[reportUnknownMemberType] torch types its table in part
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0]
            raise UserError(
                f"{SOURCE}: torch cannot decompose the program: {type(error).__name__}: {reason}"
            ) from error
    check_calls(program.graph_module, SOURCE)
    importer = AtenImporter(SOURCE)
    inputs = _inputs(importer, program, dict(shapes or {}), taken)
    outputs = importer.run_graph(program.graph_module, inputs)
    names, values = _outputs(program, outputs)
    return importer.model(names, values)


def _read_conditions(texts: Sequence[str], inputs: Mapping[str, torch.Tensor]) -> list[Any]:
    """The guards of a program that was loaded: torch keeps them as text, with inputs by their paths."""

    def size_of(words: Sequence[str], axis: int) -> Any:
        name = "_".join(re.sub(r"[^a-zA-Z0-9]", "_", word).lower() for word in words)
        if name not in inputs or axis >= inputs[name].ndim:
            raise ValueError(f"expected an input, but got '{name}' and its axis {axis}")
        return expression(inputs[name].shape[axis])

    if all(isinstance(expression(size), int) for facts in inputs.values() for size in facts.shape):
        return []
    found: list[Any] = []
    for text in texts:
        try:
            found.append(read_condition(text, size_of))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UserError(
                f"{SOURCE}: torch.export took for granted that {text}, which mlc cannot check ({error}); export the "
                "module for fixed sizes"
            ) from error
    return found


def _placeholders(program: ExportedProgram) -> list[tuple[Any, Any]]:
    """The placeholder nodes with their entries in the signature."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return list(zip(nodes, program.graph_signature.input_specs, strict=True))


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The fake tensors of the inputs that are tensors."""
    return {
        node.name: node.meta["val"]
        for node, spec in _placeholders(program)
        if spec.kind == InputKind.USER_INPUT and isinstance(node.meta["val"], torch.Tensor)
    }


def _inputs(
    importer: AtenImporter, program: ExportedProgram, shapes: dict[str, Any], taken: Sequence[Any]
) -> list[Any]:
    """The value of each placeholder: an argument, a weight, or None for a number."""
    user = _tensors(program)
    if unknown := [name for name in shapes if name not in user]:
        raise UserError(f"{SOURCE}: shapes= names {unknown}, but the inputs are {list(user)}")
    for name, facts in user.items():
        if name in shapes:
            _check_rank(name, facts.shape, shapes[name])
    ranges = cast("Any", program).range_constraints  # torch types them by sympy's classes, which have no types
    importer.sizes.bind([(n, f.shape, shapes.get(n)) for n, f in user.items()], ranges, taken)
    values: list[Any] = []
    for node, spec in _placeholders(program):
        if node.name in user:
            values.append(importer.argument(node.name, user[node.name]))
            if node.name in shapes and tuple(shapes[node.name]) != tuple(values[-1].shape):
                raise _misfit(node.name, user[node.name].shape, shapes[node.name])
        elif spec.kind == InputKind.USER_INPUT:
            values.append(None)
        else:
            values.append(importer.constant(str(spec.target), _weight(program, spec)))
    return values


def _check_rank(name: str, shape: Sequence[Any], given: Sequence[int]) -> None:
    fixed = [(own, new) for own, new in zip(map(expression, shape), given, strict=False) if isinstance(own, int)]
    if len(shape) != len(given) or any(own != new for own, new in fixed):
        raise _misfit(name, shape, given)


def _misfit(name: str, shape: Sequence[Any], given: Sequence[int]) -> UserError:
    sizes = [expression(size) for size in shape]
    text = f"expected a shape like ({', '.join(map(str, sizes))}), but got {tuple(given)}"
    fixed = [k for k, (own, new) in enumerate(zip(sizes, given, strict=False)) if isinstance(own, int) and own != new]
    if fixed and len(sizes) == len(given):
        text += f"; the program fixes axis {fixed[0]} at {sizes[fixed[0]]}, only open sizes can be given"
    return UserError(f"{SOURCE}: input '{name}': {text}")


def _weight(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor of a placeholder that is a weight or a constant."""
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in program.state_dict:
        return program.state_dict[spec.target]
    value = program.constants.get(str(spec.target))
    if not isinstance(value, torch.Tensor):
        raise UserError(f"{SOURCE}: expected '{spec.target}' to be a tensor, but got {type(value).__name__}")
    return value


def _outputs(program: ExportedProgram, values: Sequence[Any]) -> tuple[list[str], list[Value]]:
    """The outputs by name: those the module returns by their paths, and inputs that it writes by their names."""
    specs = program.graph_signature.output_specs
    written = [str(spec.target) for spec in specs if spec.kind == OutputKind.BUFFER_MUTATION]
    if written:
        raise UserError(
            f"{SOURCE}: expected a program that leaves its buffers alone, but it writes {', '.join(written)}; "
            "call eval() on the module before, or make them inputs and outputs"
        )
    own = [value for spec, value in zip(specs, values, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    changed = [(str(spec.target), value) for spec, value in zip(specs, values, strict=True) if _writes_input(spec)]
    names = [name for name, _ in changed]
    for name in _output_names(program):
        names.append(unused(name, names))
    pairs = list(zip(names, [value for _, value in changed] + own, strict=True))
    kept = [(name, value) for name, value in pairs if isinstance(value, Value)]
    if odd := [name for name, value in pairs if value is not None and not isinstance(value, Value)]:
        raise UserError(f"{SOURCE}: expected outputs that are tensors, but {', '.join(odd)} is a number")
    return [name for name, _ in kept], [value for _, value in kept]


def _writes_input(spec: OutputSpec) -> bool:
    return spec.kind == OutputKind.USER_INPUT_MUTATION


def _output_names(program: ExportedProgram) -> list[str]:
    """The names of the module's results (structure.py)."""
    output = next(node for node in program.graph.nodes if node.op == "output").args[0]
    pairs = zip(program.graph_signature.output_specs, output, strict=True)
    own = [value for spec, value in pairs if spec.kind == OutputKind.USER_OUTPUT]
    spec: Any = program.call_spec.out_spec
    if spec is None or spec.num_leaves != len(own):
        return [f"output_{index}" for index in range(len(own))]
    return leaf_names(spec, [one.meta["val"] if isinstance(one, torch.fx.Node) else one for one in own])
