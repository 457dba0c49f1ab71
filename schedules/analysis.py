"""The analysis that strategies read: a kernel's stages, their axes, and the access pattern of each read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, f32
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from mlc.dialects import te
from mlc.dialects.attributes import DEALS_ROWS
from mlc.dialects.constants import integers, items
from mlc.dialects.index import TYPICAL, Div, Index, IndexMapAttr, axis_range, const, dim
from mlc.dialects.loop import word_factors
from mlc.dialects.te_extern import ExternOp
from mlc.targets.cost.thresholds import LEAST_LANES


@dataclass(frozen=True)
class Read:
    """One read of a stage: the tensor, and its index expressions over the stage's axes (numbered from 0)."""

    tensor: SSAValue
    exprs: tuple[Index, ...]
    mask: tuple[Index, ...]
    op: te.ReadOp
    unit: int = 1
    """Contiguous elements that are multiplied as one word; distances count words."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return shape_of(self.tensor)

    @property
    def element(self) -> Attribute:
        """The element type of the tensor."""
        return _tensor_type(self.tensor).element_type

    @property
    def element_bytes(self) -> int:
        """The bytes of one element."""
        return max(8, bits_of(self.element)) // 8

    @property
    def bytes(self) -> int:
        """The bytes of the tensor."""
        return self.element_bytes * prod(self.shape)

    def needs_mask(self, axis: int, ranges: dict[int, tuple[int, int]]) -> bool:
        """Whether an index expression over this axis, without computed values, may leave the tensor."""
        for e, size in zip(self.exprs, self.shape, strict=True):
            if e.uses(axis) and all(d in ranges for d in e.dims()):
                low, high = e.bounds(ranges)
                if low < 0 or high >= size:
                    return True
        return False

    def is_contiguous_run(self, axis: int, count: int, ranges: dict[int, tuple[int, int]]) -> bool:
        """Whether each aligned run of `count` points along an axis is contiguous in memory."""
        if any(m.uses(axis) for m in self.mask):
            return False

        def address(step: int) -> Index:
            total, stride = const(0), 1
            for e, size in zip(reversed(self.exprs), reversed(self.shape), strict=True):
                total, stride = total + e.substitute({axis: dim(axis) * count + step}, ranges) * stride, stride * size
            return total

        first = address(0)
        return all(address(step) == first + step for step in range(1, count))

    def uses(self, axis: int) -> bool:
        """Whether an axis of the stage occurs in the index expressions."""
        return any(e.uses(axis) for e in self.exprs)

    def step(self, axis: int) -> int | None:
        """The distance in elements between neighbours along an axis; None where it is not constant."""
        total, stride = 0, 1
        for e, size in zip(reversed(self.exprs), reversed(self.shape), strict=True):
            rest = e - dim(axis) * e.coefficient(axis)
            if rest.uses(axis):
                return self._blocked_step(axis)
            total += e.coefficient(axis) * stride
            stride *= size
        return total // self.unit if total % self.unit == 0 else None

    @property
    def minor(self) -> Index:
        """The index expression of the last dimension; where the last one counts within a word, of the one before."""
        return self.exprs[-1 if self.unit == 1 or len(self.exprs) == 1 else -2]

    def _blocked_step(self, axis: int) -> int | None:
        """The step along an axis of a packed operand `w[j floordiv 32, k, j mod 32]`: 1 within a block, else None."""
        last = self.minor
        terms = [t for t, _ in last.terms if isinstance(t, Div) and t.is_mod and t.expr == dim(axis)]
        return 1 if len(terms) == 1 and len(last.terms) == 1 and terms[0].by % LEAST_LANES == 0 else None


def bits_of(element: Attribute) -> int:
    """The width of an element type; of index, that of an address."""
    if isinstance(element, IntegerType):
        return element.bitwidth
    return element.bitwidth if isinstance(element, AnyFloat) else 64


def _is_computed_from(value: SSAValue, argument: SSAValue | None) -> bool:
    """Whether ops compute an index, and one of them uses an argument of the stage."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        v = pending.pop()
        if v in seen or not isinstance(v.owner, Operation):
            continue
        seen.add(v)
        if argument in v.owner.operands:
            return True
        pending += v.owner.operands
    return False


class Stage:
    """One te.compute: its extents, its reads, and whether it is a reduction or a contraction."""

    def __init__(self, op: te.ComputeOp) -> None:
        self.op = op
        self.name = op.stage_name
        self.extents = representative(op, op.extents.data, op.symbols)
        self.symbolic = {k for k, e in enumerate(op.extents.data) if not e.is_const}
        """The axes of symbolic extent; `extents` holds their typical values."""
        self.num_spatial = op.num_spatial
        self.results = list(op.results_)

    @property
    def deals_rows(self) -> bool:
        """Whether threads are to take rows of pictures, and not channels (graph-annotate-rows)."""
        kernel = self.op.parent_op()
        return kernel is not None and DEALS_ROWS in kernel.attributes

    @property
    def spatial(self) -> range:
        """The axes that index the result."""
        return range(self.num_spatial)

    @property
    def reduce(self) -> range:
        """The reduction axes."""
        return range(self.num_spatial, len(self.extents))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Inclusive ranges of the axes."""
        return [axis_range(e) for e in self.extents]

    @property
    def points(self) -> int:
        """The size of the iteration space."""
        return prod(self.extents)

    @property
    def depth(self) -> int:
        """The terms of each reduction."""
        return prod(self.extents[k] for k in self.reduce)

    @property
    def gives_f32(self) -> bool:
        """Whether the stage has one result, with elements of f32."""
        return [_tensor_type(r).element_type for r in self.results] == [f32]

    @property
    def sum_bits(self) -> int:
        """The bits of an element of the widest result, from 32 on: narrower sums are kept in 32."""
        return max(32, *(bits_of(_tensor_type(r).element_type) for r in self.results))

    @property
    def long_axes(self) -> list[int]:
        """The spatial axes longer than one; where there is only one, the last symbolic axis before it, too."""
        found = [k for k in self.spatial if self.extents[k] > 1]
        if len(found) == 1:
            found = sorted({*found, *[k for k in self.spatial if k in self.symbolic and k < found[0]][-1:]})
        return found

    def open_extent(self, axis: int | None) -> int:
        """The typical extent of a symbolic axis; 0 for another one, and for none."""
        return self.extents[axis] if axis is not None and axis in self.symbolic else 0

    @property
    def work(self) -> tuple[Index, ...]:
        """The symbolic extents, as expressions over the kernel's symbols."""
        symbols = kernel_of(self.op).symbols
        numbers = {k: dim(symbols.index(v)) for k, v in enumerate(self.op.symbols)}
        return tuple(self.op.extents.data[k].substitute(numbers) for k in sorted(self.symbolic))

    @cached_property
    def reads(self) -> list[Read]:
        """All reads in the body."""
        numbers = {v: k for k, v in enumerate(self.op.axes)}
        found: list[Read] = []
        for op in self.op.body.block.ops:
            if isinstance(op, te.ReadOp):
                operands = list(op.indices)

                def one(d: int, operands: list[SSAValue] = operands) -> Index:
                    v = operands[d]
                    return dim(numbers.setdefault(v, len(numbers)))

                exprs = tuple(e.substitute(one) for e in op.map.data)
                mask = tuple(e.substitute(one) for e in (op.mask.data if op.mask is not None else ()))
                found.append(Read(op.tensor, exprs, mask, op))
        return found

    def buffer_number(self, tensor: SSAValue) -> int:
        """The number by which `sched.cache_read` names a tensor that the stage reads."""
        return list(dict.fromkeys(read.tensor for read in self.reads)).index(tensor)

    @property
    def has_computed_mask(self) -> bool:
        """Whether a read is guarded by a condition computed from data, which has no form for vectors."""
        masks = [(op, op.mask) for op in (r.op for r in self.reads) if op.mask is not None]
        return any(isinstance(op.indices[d].owner, Operation) for op, m in masks for e in m.data for d in e.dims())

    @cached_property
    def axes_in_values(self) -> set[int]:
        """The axes with whose index the stage computes, as a mask of a triangle does, index expressions apart."""
        arguments = enumerate(self.op.body.block.args[: len(self.extents)])
        return {k for k, a in arguments if any(not isinstance(use.operation, te.ReadOp) for use in a.uses)}

    @property
    def gather_index_may_overrun(self) -> bool:
        """Whether a gather along the last axis may leave its tensor in lanes that a predicate switches off."""
        return self.gathers_may_overrun([self.num_spatial - 1] if self.num_spatial else [])

    def gathers_may_overrun(self, lanes: Sequence[int]) -> bool:
        """
        Whether a gather may leave its tensor in lanes, along these axes, that a predicate switches off.

        It may where an axis is symbolic, or where only a mask keeps an index inside of the tensor: a gather computes
        the address of every lane. An index that is the same for all lanes is part of one address for all.
        """
        ranges, args = dict(enumerate(self.ranges)), [self.op.body.block.args[k] for k in lanes]
        computed = [r for r in self.reads if any(_is_computed_from(v, a) for v in r.op.indices for a in args)]
        symbolic = bool(self.symbolic.intersection(lanes))
        if len(lanes) > 1 and symbolic and any(r.mask for r in computed):
            return True  # form-tiles finds no place that is inside for all lanes (_check_unmasked)
        return any(r.uses(k) and (k in self.symbolic or r.needs_mask(k, ranges)) for r in computed for k in lanes)

    @property
    def sums_gathered_rows(self) -> bool:
        """Whether each term of a reduction is read along the last spatial axis, in a row whose place is looked up."""
        terms, last = [self.op.body.block.args[k] for k in self.reduce], self.num_spatial - 1
        rows = [r for r in self.reads if last >= 0 and r.step(last) == 1]
        return any(_is_computed_from(v, one) for r in rows for v in r.op.indices for one in terms)

    @cached_property
    def factors(self) -> tuple[Read, Read] | None:
        """The two operands of a contraction: a sum over the product of two reads."""
        if self.op.combiner is None or self.op.combiner.data != "sum":
            return None
        product = self.op.yield_op.values[0].owner
        if not isinstance(product, arith.MulfOp | arith.MuliOp):
            return None
        by_value: dict[SSAValue, Read] = {r.op.result: r for r in self.reads}
        a, b = (by_value.get(_through_casts(v)) for v in product.operands)
        if a is None or b is None:
            return None
        units = self._words((a, b))
        return replace(a, unit=units[0]), replace(b, unit=units[1])

    def _words(self, factors: tuple[Read, Read]) -> tuple[int, int]:
        """
        Points of the last reduction axis that share one word (2 or 4 narrow elements), for each operand; 1 for none.

        One operand may be strided along that axis, if it is contiguous along the lanes: loads interleave its words.
        """
        elements = {r.element for r in factors}
        if isinstance(self.op.yield_op.values[0].type, AnyFloat) and any(isinstance(e, IntegerType) for e in elements):
            return 1, 1  # bytes that are converted to floats
        count = word_factors(elements.pop())
        last = self.reduce[-1]
        if elements or count == 1 or self.extents[last] % count:
            return 1, 1
        ranges = dict(enumerate(self.ranges)) | {last: (0, self.extents[last] // count - 1)}
        together = [r.is_contiguous_run(last, count, ranges) for r in factors]
        if all(together):
            return count, count
        lanes = self.num_spatial - 1
        if not any(together) or self.extents[last] != count or any(not r.uses(lanes) for r in factors):
            return 1, 1
        apart = factors[together.index(False)]
        woven = not apart.mask and apart.step(lanes) == 1 and apart.step(last) is not None
        return (count if together[0] else 1, count if together[1] else 1) if woven else (1, 1)

    @property
    def in_scan(self) -> bool:
        """Whether the stage runs in each step of a scan, which its first axis counts."""
        return isinstance(self.op.parent_op(), te.ScanOp)

    @property
    def is_reduction(self) -> bool:
        """Whether the stage has reduction axes."""
        return bool(self.reduce)


def representative(op: Operation, exprs: Sequence[Index], symbols: Sequence[SSAValue]) -> tuple[int, ...]:
    """The values of expressions at the typical sizes of the kernel's symbols, for which the schedule is chosen."""
    if all(e.is_const for e in exprs):
        return tuple(e.const for e in exprs)
    func = kernel_of(op)
    given = integers(func.attributes.get("typical"))
    own = func.symbols
    known = given if given is not None else (TYPICAL,) * len(own)
    values = dict(zip(own, known, strict=True))
    return tuple(max(1, int(e.evaluate([values[s] for s in symbols]))) for e in exprs)


def kernel_of(op: Operation) -> te.FuncOp:
    """The te.func that an op is, or that it stands in."""
    while not isinstance(op, te.FuncOp):
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def shape_of(tensor: SSAValue) -> tuple[int, ...]:
    """The shape of a kernel's tensor, at typical sizes where it is symbolic."""
    t = _tensor_type(tensor)
    if t.has_static_shape():
        return tuple(t.get_shape())
    if isinstance(stage := tensor.owner, te.ComputeOp):
        return representative(stage, stage.extents.data[: stage.num_spatial], stage.symbols)
    if isinstance(extern := tensor.owner, ExternOp):
        return representative(extern, extern.shape_of(tensor), extern.symbols)
    scan = tensor.owner if isinstance(tensor.owner, te.ScanOp) else tensor.owner.parent_op()
    if isinstance(scan, te.ScanOp) and isinstance(tensor, OpResult | BlockArgument):
        return shape_of(scan.yield_op.values[tensor.index])
    assert isinstance(tensor, BlockArgument)
    func = tensor.owner.parent_op()
    assert isinstance(func, te.FuncOp)
    sizes = items(func.attributes["sizes"])[tensor.index]
    assert isinstance(sizes, IndexMapAttr)
    return representative(func, sizes.data, func.symbols)


def _tensor_type(tensor: SSAValue) -> TensorType[Attribute]:
    t = tensor.type
    assert isinstance(t, TensorType)
    return t


_WIDENING = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")


def _through_casts(v: SSAValue) -> SSAValue:
    """The value that casts widen, from which no cast takes a digit: integers of 16 bits are exact floats."""
    owner = v.owner
    while isinstance(owner, Operation) and owner.name in _WIDENING and _is_exact(owner.operands[0], owner.results[0]):
        v = owner.operands[0]
        owner = v.owner
    return v


def _is_exact(narrow: SSAValue, wide: SSAValue) -> bool:
    """Whether each value of a narrow type is one of the wide type."""
    if not isinstance(narrow.type, IntegerType) or isinstance(wide.type, IntegerType):
        return True
    return narrow.type.width.data <= 16


class KernelInfo:
    """A te.func as strategies see it."""

    def __init__(self, func: te.FuncOp) -> None:
        self.func = func
        self.name = func.sym_name.data
        self.stages = [Stage(op) for op in func.stages]
        self.by_result: dict[SSAValue, Stage] = {r: s for s in self.stages for r in s.results}
        self.outputs = list(func.return_op.values)
        self.has_scans = bool(func.scans)

    def producers(self, stage: Stage) -> list[Stage]:
        """The stages that a stage reads."""
        found: list[Stage] = []
        for r in stage.reads:
            s = self.by_result.get(r.tensor)
            if s is not None and s not in found:
                found.append(s)
        return found

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read a stage."""
        return [s for s in self.stages if any(r.tensor in stage.results for r in s.reads)]

    def after(self, stage: Stage) -> list[Stage]:
        """The stages after this one in program order."""
        return self.stages[self.stages.index(stage) + 1 :]

    def before(self, stage: Stage) -> list[Stage]:
        """The stages before this one in program order."""
        return self.stages[: self.stages.index(stage)]


def slides(stage: Stage, axis: int = 1) -> bool:
    """Whether the reduction axis `axis` from the end is a window's, sliding along the spatial axis of that place."""
    window, spatial = stage.reduce[-axis], stage.num_spatial - axis
    return spatial >= 0 and any(e.uses(window) and e.uses(spatial) for r in stage.reads for e in r.exprs)


def reads_pointwise(consumer: Stage, producer: Stage) -> bool:
    """Whether the consumer reads the producer at its own point only: an identity access."""
    if consumer.is_reduction or tuple(consumer.extents) != tuple(producer.extents[: producer.num_spatial]):
        return False
    identity = tuple(dim(k) for k in consumer.spatial)
    own = [r for r in consumer.reads if r.tensor in producer.results]
    return bool(own) and all(_fits(r.exprs, identity, consumer) and not r.mask for r in own)


def followers(kernel: KernelInfo, stage: Stage) -> list[Stage]:
    """
    The pointwise stages directly behind a reduction whose other operands are computed before it.

    One that reads where a condition computed from data says has no form for vectors, and ends them.
    """
    found: list[Stage] = []
    known = {*kernel.before(stage), stage}
    for one in kernel.after(stage):
        if not reads_pointwise(one, stage) or not set(kernel.producers(one)) <= known or one.has_computed_mask:
            break
        found.append(one)
        known.add(one)
    return found


def _fits(exprs: tuple[Index, ...], identity: tuple[Index, ...], consumer: Stage) -> bool:
    """Whether the expressions are the identity; an axis of extent 1 may be a constant."""
    return len(exprs) == len(identity) and all(
        e == d or (consumer.extents[k] == 1 and e.is_const)
        for k, (e, d) in enumerate(zip(exprs, identity, strict=True))
    )
