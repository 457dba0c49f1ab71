"""From a torch.export program, or a module and its arguments, to a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from mlc.frontends.common.model import Model
from mlc.frontends.onnx.node import Value
from mlc.frontends.torch.guards import conditions
from mlc.frontends.torch.lengths import OpenLengths
from mlc.frontends.torch.program import Program, check_calls
from mlc.frontends.torch.sizes import expression
from mlc.frontends.torch.table import decompositions
from mlc.support.errors import UserError

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

    `dynamic_shapes` is torch.export's: sizes that stay symbols, unless `shapes` gives them.
    """
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"expected a torch.nn.Module, but got {type(module).__name__}; mlc.load takes programs")
    given = tuple(args) if isinstance(args, Sequence) else (args,)
    try:
        with torch.no_grad(), OpenLengths():
            program = torch.export.export(
                module, given, dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
            )
    except Exception as error:
        raise UserError(f"{SOURCE}: torch.export failed: {error}") from error
    return import_program(program, shapes)


def import_program(program: ExportedProgram, shapes: Shapes | None = None) -> Model:
    """The model of a torch.export program; `shapes` gives sizes that it leaves open."""
    taken = conditions(size for facts in _tensors(program).values() for size in facts.shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)  # torch's own, of its copies
        program = program.run_decompositions(decompositions())
    check_calls(program.graph_module, SOURCE)
    importer = Program(SOURCE)
    inputs = _inputs(importer, program, dict(shapes or {}), taken)
    outputs = importer.run_graph(program.graph_module, inputs)
    names, values = _outputs(program, outputs)
    return importer.model(names, values)


def _placeholders(program: ExportedProgram) -> list[tuple[Any, Any]]:
    """The nodes that are inputs or weights, and what the signature says of each."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return list(zip(nodes, program.graph_signature.input_specs, strict=True))


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The inputs that are tensors, as torch knows them."""
    return {
        node.name: node.meta["val"]
        for node, spec in _placeholders(program)
        if spec.kind == InputKind.USER_INPUT and isinstance(node.meta["val"], torch.Tensor)
    }


def _inputs(importer: Program, program: ExportedProgram, shapes: dict[str, Any], taken: Sequence[Any]) -> list[Any]:
    """What each placeholder is: an argument, a weight, or None for a number."""
    user = _tensors(program)
    if unknown := [name for name in shapes if name not in user]:
        raise UserError(f"{SOURCE}: shapes= names {unknown}, but the inputs are {list(user)}")
    for name, facts in user.items():
        if name in shapes:
            _check_rank(name, facts.shape, shapes[name])
    importer.sizes.bind([(n, f.shape, shapes.get(n)) for n, f in user.items()], program.range_constraints, taken)
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


def _check_rank(name: str, shape: Sequence[Any], given: Any) -> None:
    fixed = [(own, new) for own, new in zip(map(expression, shape), given, strict=False) if isinstance(own, int)]
    if len(shape) != len(given) or any(own != new for own, new in fixed):
        raise _misfit(name, shape, given)


def _misfit(name: str, shape: Sequence[Any], given: Any) -> UserError:
    sizes = [str(expression(size)) for size in shape]
    return UserError(f"{SOURCE}: input '{name}': expected a shape like ({', '.join(sizes)}), but got {tuple(given)}")


def _weight(program: ExportedProgram, spec: Any) -> torch.Tensor:
    """The tensor behind a placeholder that is not an argument."""
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target in program.state_dict:
        return program.state_dict[spec.target]
    value = program.constants.get(spec.target)
    if not isinstance(value, torch.Tensor):
        raise UserError(f"{SOURCE}: expected '{spec.target}' to be a tensor, but got {type(value).__name__}")
    return value


def _outputs(program: ExportedProgram, values: Sequence[Any]) -> tuple[list[str], list[Value]]:
    """The outputs by name: where they stand in what the module returns, and inputs that it writes, by their names."""
    specs = program.graph_signature.output_specs
    written = [str(spec.target) for spec in specs if spec.kind == OutputKind.BUFFER_MUTATION]
    if written:
        raise UserError(
            f"{SOURCE}: expected a program that leaves its buffers alone, but it writes {', '.join(written)}; "
            "call eval() on the module before, or make them inputs and outputs"
        )
    own = [value for spec, value in zip(specs, values, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    changed = [(str(spec.target), value) for spec, value in zip(specs, values, strict=True) if _writes_input(spec)]
    pairs = [*changed, *zip(_output_names(program, len(own)), own, strict=True)]
    kept = [(name, value) for name, value in pairs if isinstance(value, Value)]
    if odd := [name for name, value in pairs if value is not None and not isinstance(value, Value)]:
        raise UserError(f"{SOURCE}: expected outputs that are tensors, but {', '.join(odd)} is a number")
    return [name for name, _ in kept], [value for _, value in kept]


def _writes_input(spec: Any) -> bool:
    return spec.kind == OutputKind.USER_INPUT_MUTATION


def _output_names(program: ExportedProgram, count: int) -> list[str]:
    """`output`, or `output_0_1` by the places in tuples and lists, or the keys of dicts: `logits`, `cache_0`."""
    spec: Any = program.call_spec.out_spec
    if spec is None or spec.num_leaves != count:
        return [f"output_{index}" for index in range(count)]
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(range(count), spec))
    names: list[str] = []
    for path, _ in paths:
        words = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        rooted = words if words and not words[0].isdigit() else ["output", *words]
        names.append("_".join(rooted))
    return names
