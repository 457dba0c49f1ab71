"""te.func: a kernel from its inputs and outputs; the stages between them are copied into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import te
from mlc.dialects.attributes import (
    KERNEL_ARGUMENTS,
    KERNEL_LEAST,
    KERNEL_SIZES,
    KERNEL_SYMBOLS,
    KERNEL_TYPICAL,
    KERNEL_UNSIGNED,
)
from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, SymbolAttr, basis, bounds_between
from mlc.dialects.graph.expressions import Bounded
from mlc.dialects.graph.types import sizes_at
from mlc.dialects.index import TYPICAL, UNBOUNDED, IndexMapAttr, dim
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder.indices import SYMBOL_VALUES, index_of
from mlc.dialects.te_builder.stages import KernelBuilder, copy_of
from mlc.dialects.te_builder.tensors import Tensor
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError


def var(name: str, low: int = 1, high: int | None = None) -> DimExpr:
    """
    A size that is known when the kernel is called: from the shapes of its arrays, at least `low` and at most `high`.

    It goes into shapes and reduction axes, alone or in arithmetic: `te.placeholder((n, 2 * n + 1))`. Two of one name
    are the same size.
    """
    if not isinstance(name, str) or not name.isidentifier():  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        raise UserError(f"expected the name of a size, but got {name!r}")
    if low < 0 or (high is not None and high < low):
        raise UserError(f"expected a size '{name}' from 0 on or more, up to no less, but got {low} to {high}")
    plain = low == 1 and high is None
    return DimExpr.symbol(name) if plain else DimExpr.symbol(name, low, UNBOUNDED if high is None else high)


def func(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> te.FuncOp:
    """The te.func with these inputs and outputs; the stages are copied into it."""
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        raise UserError(f"expected the name of the kernel, but got {name!r:.40}")
    if name[0].isdigit():
        raise UserError(f"expected the name of the kernel to begin with a letter, but got '{name:.40}'")
    inputs, outputs = _tensors("inputs", inputs), _distinct(_tensors("outputs", outputs))
    symbols = _symbols([*inputs, *outputs])
    block = Block(arg_types=[*(_value(t).type for t in inputs), *(INDEX for _ in symbols)])
    mapping: dict[SSAValue, SSAValue] = {}
    for tensor, arg in zip(inputs, block.args, strict=False):
        value = _value(tensor)
        if not isinstance(value, BlockArgument) or value in mapping:
            raise UserError(f"expected the inputs of te.func to be placeholders, each once, but got '{tensor.name}'")
        mapping[value] = arg
        arg.name_hint = value_name(tensor.name)
    for symbol, arg in zip(symbols, block.args[len(inputs) :], strict=True):
        if symbol in SYMBOL_VALUES:
            mapping[SYMBOL_VALUES[symbol]] = arg
        arg.name_hint = value_name("_x_".join(symbol.symbols()))
    kernel = KernelBuilder(block)
    for output in outputs:
        _copy_stages(kernel, _value(output), mapping)
    results = [mapping[_value(o)] for o in outputs]
    block.add_op(te.ReturnOp.create(operands=results))
    new = te.FuncOp.make(name, [a.type for a in block.args], [r.type for r in results], Region(block))
    if symbols:
        new.attributes |= size_attributes([t.shape for t in (*inputs, *outputs)], symbols, _ranges(symbols))
        new.attributes |= _symbol_attributes(symbols)
    if unsigned := [k for k, t in enumerate((*inputs, *outputs)) if t.unsigned]:
        new.attributes[KERNEL_UNSIGNED] = DenseArrayBase.from_list(i64, unsigned)
    _verify(new)
    return new


def _tensors(what: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    found: list[Tensor] = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for tensor in found:
        if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - from users
            raise UserError(f"expected the {what} of te.func to be tensors, but got {tensor!r:.80}")
    return found


def _distinct(outputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs; one that is an input, a table, a fill, or another output as well becomes a stage that copies it."""
    found: list[Tensor] = []
    for tensor in outputs:
        computed = tensor.value is not None and isinstance(tensor.value.owner, te.ComputeOp | te.ScanOp | ExternOp)
        if not computed or any(tensor.value is other.value for other in found):
            tensor = copy_of(tensor, "x")
        found.append(tensor)
    return found


def _value(tensor: Tensor) -> SSAValue:
    if tensor.value is None:
        raise UserError("expected a placeholder or a stage, but got te.full; copy it by te.compute")
    return tensor.value


def dependences(op: Operation) -> Iterator[SSAValue]:
    """The values from outside of a stage, a scan or a table that it uses."""
    inside = {op, *op.walk()}
    for inner in op.walk():
        for value in inner.operands:
            owner = value.owner
            if (owner.parent_op() if isinstance(owner, Block) else owner) not in inside:
                yield value


def _copy_stages(kernel: KernelBuilder, value: SSAValue, mapping: dict[SSAValue, SSAValue]) -> None:
    if value in mapping:
        return
    op = value.owner
    if not isinstance(op, te.ComputeOp | te.ScanOp | te.TableOp | ExternOp):
        raise UserError(
            f"expected '{value.name_hint}' among the inputs of te.func, but it is not; the state of a recurrence is "
            "given to te.scan"
        )
    for used in dependences(op):
        _copy_stages(kernel, used, mapping)
    copy = op.clone(mapping)
    kernel.place(copy)
    mapping.update(zip(op.results, copy.results, strict=True))


def _verify(new: te.FuncOp) -> None:
    """UserError for what the API lets pass and the verifier refuses."""
    for op in new.walk():
        if isinstance(op, te.ComputeOp | te.ScanOp | ExternOp):
            try:
                op.verify()
            except VerifyException as error:
                text = str(error).rpartition("\n")[2]
                hint = "guard it by te.if_then_else, or give the tensor to te.scan as its state"
                raise UserError(f"stage '{op.stage_name}': {text.replace('give it a mask', hint)}") from error


# --- sizes that stay open ----------------------------------------------------------------------------------------


def _symbols(tensors: Sequence[Tensor]) -> list[DimExpr]:
    """The symbols, and products of symbols, that the stages behind tensors use, and that are in their shapes."""
    sizes: list[Dim] = [size for tensor in tensors for size in tensor.shape]
    known = {value: size for size, value in SYMBOL_VALUES.items()}
    seen: set[SSAValue] = set()
    stack = [tensor.value for tensor in tensors if tensor.value is not None]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in known:
            sizes.append(known[value])
        elif isinstance(value.owner, Operation):
            stack += dependences(value.owner)
    return basis(sizes)


def _ranges(symbols: Sequence[DimExpr]) -> dict[str, SymbolAttr]:
    """The ranges of symbols that have one."""
    names = [name for symbol in symbols for name in symbol.symbols()]
    return {str(name): SymbolAttr(name.low, name.high) for name in names if isinstance(name, Bounded)}


def _symbol_attributes(symbols: Sequence[DimExpr]) -> dict[str, Attribute]:
    """What each index argument of the kernel holds, and the ranges of the symbols in these expressions."""
    return {
        KERNEL_SYMBOLS: DictionaryAttr(dict(_ranges(symbols))),
        KERNEL_ARGUMENTS: DimsAttr(tuple(DimExpr.of(s) for s in symbols)),
    }


def size_attributes(
    shapes: Sequence[Sequence[Dim]], symbols: Sequence[DimExpr], ranges: Mapping[str, SymbolAttr]
) -> dict[str, Attribute]:
    """The attributes `sizes` (shapes over the symbols), `typical` and `least` (values of the symbols) of a kernel."""
    number = {symbol: dim(k) for k, symbol in enumerate(symbols)}
    rows = ArrayAttr([IndexMapAttr.get(index_of(n, number.__getitem__) for n in shape) for shape in shapes])
    plain = dict.fromkeys((name for symbol in symbols for name in symbol.symbols()), TYPICAL)
    usual = sizes_at(symbols, plain | {name: s.typical for name, s in ranges.items()})
    ends = {name: (s.low.data, s.high.data) for name, s in ranges.items()}
    least = [int(max(bounds_between(symbol, ends)[0], -UNBOUNDED)) for symbol in symbols]
    return {
        KERNEL_SIZES: rows,
        KERNEL_TYPICAL: DenseArrayBase.from_list(i64, list(usual)),
        KERNEL_LEAST: DenseArrayBase.from_list(i64, least),
    }
