"""What strategies ask about a kernel: its stages, their axes and what each read does with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IntegerType, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.constants import integers
from mlc.dialects.index import TYPICAL, Div, Index, IndexMapAttr, axis_range, const, dim
from mlc.dialects.loop import word_factors
from mlc.targets.cost.thresholds import LEAST_LANES


@dataclass(frozen=True)
class Read:
    """One read of a stage: the tensor, and its index expressions over the stage's axes (numbered from 0)."""

    tensor: SSAValue
    exprs: tuple[Index, ...]
    mask: tuple[Index, ...]
    op: te.ReadOp
    unit: int = 1
    """Elements that lie together and are multiplied as one word: distances count words."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return shape_of(self.tensor)

    @property
    def element(self) -> Attribute:
        """The element type of the tensor."""
        t = self.tensor.type
        assert isinstance(t, TensorType)
        return t.element_type

    @property
    def element_bytes(self) -> int:
        """The bytes of one element."""
        return max(8, bits_of(self.element)) // 8

    @property
    def bytes(self) -> int:
        """The bytes of the tensor."""
        return self.element_bytes * prod(self.shape)

    def needs_mask(self, axis: int, ranges: dict[int, tuple[int, int]]) -> bool:
        """Whether an index that uses an axis, and no computed value, is outside of the tensor somewhere."""
        for e, size in zip(self.exprs, self.shape, strict=True):
            if e.uses(axis) and all(d in ranges for d in e.dims()):
                low, high = e.bounds(ranges)
                if low < 0 or high >= size:
                    return True
        return False

    def lies_together(self, axis: int, count: int, ranges: dict[int, tuple[int, int]]) -> bool:
        """Whether `count` steps along an axis, from a multiple of it on, are neighbours in memory."""
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

    def step(self, axis: int, ranges: Sequence[tuple[int, int]]) -> int | None:
        """The distance in elements between neighbours along an axis; None where it is not constant."""
        total, stride = 0, 1
        for e, size in zip(reversed(self.exprs), reversed(self.shape), strict=True):
            rest = e - dim(axis) * e.coefficient(axis)
            if rest.uses(axis):
                return self._blocked_step(axis, ranges)
            total += e.coefficient(axis) * stride
            stride *= size
        return total // self.unit if total % self.unit == 0 else None

    @property
    def minor(self) -> Index:
        """The index within the rows of the tensor's memory: of the last dimension, or the last but that of a word."""
        return self.exprs[-1 if self.unit == 1 or len(self.exprs) == 1 else -2]

    def _blocked_step(self, axis: int, ranges: Sequence[tuple[int, int]]) -> int | None:
        """A packed operand `w[j floordiv 32, k, j mod 32]`: contiguous inside of a block."""
        last = self.minor
        terms = [t for t, _ in last.terms if isinstance(t, Div) and t.is_mod and t.expr == dim(axis)]
        return 1 if len(terms) == 1 and len(last.terms) == 1 and terms[0].by % LEAST_LANES == 0 else None


def bits_of(element: Attribute) -> int:
    """The width of an element type; of index, that of an address."""
    if isinstance(element, IntegerType):
        return element.width.data
    return element.bitwidth if isinstance(element, AnyFloat) else 64


class Stage:
    """One te.compute: extents, reads, and what kind of work it is."""

    def __init__(self, op: te.ComputeOp) -> None:
        self.op = op
        self.name = op.stage_name
        self.extents = representative(op, op.extents.data, op.symbols)
        self.symbolic = {k for k, e in enumerate(op.extents.data) if not e.is_const}
        """The axes whose extents are not static: those in `extents` stand for them."""
        self.num_spatial = op.num_spatial
        self.results = list(op.results_)

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
    def long_axes(self) -> list[int]:
        """The spatial axes that are longer than one; where only one is, also one that is open, and perhaps is."""
        found = [k for k in self.spatial if self.extents[k] > 1]
        if len(found) == 1:
            found = sorted({*found, *[k for k in self.spatial if k in self.symbolic and k < found[0]][-1:]})
        return found

    @property
    def work(self) -> tuple[Index, ...]:
        """The symbolic extents, over the numbers of the kernel's symbols."""
        func = self.op.parent_op()
        assert isinstance(func, te.FuncOp)
        symbols = [a for a in func.args if not isinstance(a.type, TensorType)]
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

    @property
    def gather_index_may_overrun(self) -> bool:
        """
        Whether a gather along the last axis may leave its tensor in lanes that a predicate switches off.

        That is so where the axis is symbolic, or where a mask alone keeps an index inside of the tensor: all lanes of
        a gather need an address.
        """
        last = self.num_spatial - 1
        computed = [r for r in self.reads if any(isinstance(v.owner, Operation) for v in r.op.indices)]
        ranges = dict(enumerate(self.ranges))
        return any(r.uses(last) and (last in self.symbolic or r.needs_mask(last, ranges)) for r in computed)

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
        How many steps of the last reduction axis are the two halves (quarters) of one word in each operand.

        One operand may lie apart along that axis, if it is contiguous along the lanes: its words are woven when loaded.
        """
        elements = {r.element for r in factors}
        count = word_factors(elements.pop())
        last = self.reduce[-1]
        if elements or count == 1 or self.extents[last] % count:
            return 1, 1
        ranges = dict(enumerate(self.ranges)) | {last: (0, self.extents[last] // count - 1)}
        together = [r.lies_together(last, count, ranges) for r in factors]
        if all(together):
            return count, count
        lanes = self.num_spatial - 1
        if not any(together) or self.extents[last] != count or any(not r.uses(lanes) for r in factors):
            return 1, 1
        apart = factors[together.index(False)]
        woven = not apart.mask and apart.step(lanes, self.ranges) == 1 and apart.step(last, self.ranges) is not None
        return (count if together[0] else 1, count if together[1] else 1) if woven else (1, 1)

    @property
    def is_reduction(self) -> bool:
        """Whether the stage has reduction axes."""
        return bool(self.reduce)


def representative(op: Operation, exprs: Sequence[Index], symbols: Sequence[SSAValue]) -> tuple[int, ...]:
    """Sizes at typical values of the kernel's symbols: what a schedule is chosen for."""
    if all(e.is_const for e in exprs):
        return tuple(e.const for e in exprs)
    func = op if isinstance(op, te.FuncOp) else op.parent_op()
    assert isinstance(func, te.FuncOp)
    given = integers(func.attributes.get("typical"))
    own = [a for a in func.args if not isinstance(a.type, TensorType)]
    known = (TYPICAL,) * len(own) if given is None else given
    values = dict(zip(own, known, strict=True))
    return tuple(max(1, int(e.evaluate([values[s] for s in symbols]))) for e in exprs)


def shape_of(tensor: SSAValue) -> tuple[int, ...]:
    """The shape of a kernel's tensor; what stands for it where it is symbolic."""
    t = tensor.type
    assert isinstance(t, TensorType)
    if t.has_static_shape():
        return tuple(t.get_shape())
    if isinstance(stage := tensor.owner, te.ComputeOp):
        return representative(stage, stage.extents.data[: stage.num_spatial], stage.symbols)
    assert isinstance(tensor, BlockArgument)
    func = tensor.owner.parent_op()
    assert isinstance(func, te.FuncOp)
    sizes = func.attributes["sizes"]
    assert isinstance(sizes, ArrayAttr)
    symbols = [a for a in func.args if not isinstance(a.type, TensorType)]
    shape = sizes.data[tensor.index]
    assert isinstance(shape, IndexMapAttr)
    return representative(func, shape.data, symbols)


def _through_casts(v: SSAValue) -> SSAValue:
    owner = v.owner
    while isinstance(owner, Operation) and owner.name in ("arith.extf", "arith.extsi", "arith.extui"):
        v = owner.operands[0]
        owner = v.owner
    return v


class KernelInfo:
    """A te.func as strategies see it."""

    def __init__(self, func: te.FuncOp) -> None:
        self.func = func
        self.name = func.sym_name.data
        self.stages = [Stage(op) for op in func.stages]
        self.by_result: dict[SSAValue, Stage] = {r: s for s in self.stages for r in s.results}
        self.outputs = list(func.return_op.values)

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
        """The stages behind this one in program order."""
        return self.stages[self.stages.index(stage) + 1 :]

    def before(self, stage: Stage) -> list[Stage]:
        """The stages in front of this one."""
        return self.stages[: self.stages.index(stage)]


def reads_pointwise(consumer: Stage, producer: Stage) -> bool:
    """Whether every read of the producer is at the consumer's own point, axis by axis."""
    if consumer.is_reduction or tuple(consumer.extents) != tuple(producer.extents[: producer.num_spatial]):
        return False
    identity = tuple(dim(k) for k in consumer.spatial)
    own = [r for r in consumer.reads if r.tensor in producer.results]
    return bool(own) and all(_fits(r.exprs, identity, consumer) and not r.mask for r in own)


def _fits(exprs: tuple[Index, ...], identity: tuple[Index, ...], consumer: Stage) -> bool:
    """Equal, but for axes of extent 1, which may stand as 0."""
    return len(exprs) == len(identity) and all(
        e == d or (consumer.extents[k] == 1 and e.is_const)
        for k, (e, d) in enumerate(zip(exprs, identity, strict=True))
    )
