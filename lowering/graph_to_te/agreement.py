"""
Checks that the te of a graph op computes the result types that the op's type inference gives.

Memory is planned by the graph's types and written by the loops of the te: a difference would corrupt memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerType, Signedness, TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.attributes import GRAPH_KERNEL
from mlc.dialects.graph.base import GraphOp, Sample
from mlc.dialects.graph.compare import compare_sizes
from mlc.dialects.graph.dims import Dim, SymbolAttr
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import shape_of, tensor
from mlc.dialects.te_builder.builder import Tensor, signless
from mlc.support.errors import UserError


def checked_results(op: Operation, made: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The te tensors of an op, one for each result; UserError if their types differ from the inferred ones."""
    tensors: tuple[Any, ...] = tuple(made) if isinstance(made, tuple | list) else (made,)
    for one in tensors:
        if not isinstance(one, Tensor):
            raise UserError(f"expected the te of {op.name} to return a te tensor for each result, but got {one!r}")
    if len(tensors) != len(op.results):
        inferred, computed = ([str(t) for t in types] for types in (op.result_types, map(_type_of, tensors)))
        raise UserError(
            f"expected the te of {op.name} to compute {_results(inferred)}, as its infer_types says, "
            f"but it computes {_results(computed)}"
        )
    for index, (result, one) in enumerate(zip(op.results, tensors, strict=True)):
        _check_result(op, index, result, one)
    return tensors


def _results(types: Sequence[str]) -> str:
    """`2 results (tensor<2xf32>, tensor<2xi64>)`."""
    return f"{len(types)} result{'' if len(types) == 1 else 's'} ({', '.join(types)})"


def _check_result(op: Operation, index: int, result: SSAValue, computed: Tensor) -> None:
    """UserError if the inferred type of a result is not the one that its te computes."""
    inferred = result.type
    if not isinstance(inferred, TensorType):
        raise UserError(f"expected the infer_types of {op.name} to give tensor types, but got {inferred}")
    element = signless(inferred.element_type) == (computed.element, computed.unsigned)
    shape = shape_of(inferred)
    if element and shape == computed.shape:
        return
    why = ""
    if element and len(shape) == len(computed.shape):
        ranges = _ranges(op)
        unequal = (_difference(a, b, ranges) for a, b in zip(shape, computed.shape, strict=True))
        found = next((text for text in unequal if text is not None), None)
        if found is None:
            return
        why = found
    which = f"result {index} of " if len(op.results) > 1 else ""
    raise UserError(
        f"expected the te of {op.name} to compute {which}type {inferred}, as its infer_types says, "
        f"but it computes {_type_of(computed)}{why}"
    )


def _difference(inferred: Dim, computed: Dim, ranges: Mapping[str, SymbolAttr]) -> str | None:
    """The message about two sizes that are not equal for all values of the symbols; None for equal ones."""
    verdict = compare_sizes(inferred, computed, ranges)
    if verdict.equal:
        return None
    if verdict.at is None:
        return f"; the sizes {inferred} and {computed} are not known to be equal: write them alike"
    at = ", ".join(f"{name} = {value}" for name, value in verdict.at.items())
    return f"; the sizes {inferred} and {computed} differ at {at}" if at else ""


def _type_of(computed: Tensor) -> TensorType[Any]:
    """The graph's type of a te tensor."""
    element = computed.element
    if computed.unsigned and isinstance(element, IntegerType):
        element = IntegerType(element.width.data, Signedness.UNSIGNED)
    return tensor(computed.shape, element)


def _ranges(op: Operation) -> Mapping[str, SymbolAttr]:
    """The ranges of the symbols that the enclosing function declares."""
    parent = op.parent_op()
    return {} if parent is None else symbols_of(parent)


def check_samples(op: type[GraphOp]) -> None:
    """Lower an op's samples; UserError if one is invalid, or its te rejects it or computes other types."""
    from mlc.lowering.graph_to_te.convert import convert_kernel

    for index, sample in enumerate(op.samples()):
        try:
            convert_kernel(kernel_of(op, sample))
        except (UserError, VerifyException) as error:
            raise UserError(f"sample {index} of {op.name}: {error}") from error
        except Exception:
            continue  # the te may call functions that the file defines later; the lowering checks each op again


def kernel_of(op: type[GraphOp], sample: Sample) -> func.FuncOp:
    """A kernel function of one op, built from a sample."""
    kernel = func.FuncOp("sample", (list(sample.operands), []))
    kernel.attributes[GRAPH_KERNEL] = UnitAttr()
    given = {} if sample.result is None else {"result": sample.result}
    made = op.make(*kernel.body.block.args, **given, **sample.attrs)
    kernel.body.block.add_ops([made, func.ReturnOp(*made.results)])
    kernel.properties["function_type"] = FunctionType.from_lists(sample.operands, made.result_types)
    return kernel


__all__ = ["check_samples", "checked_results", "kernel_of"]
