"""
Random graphs from the ops' own records: `graphs()` is a hypothesis strategy of Cases.

An op is drawn with one of its samples, whose sizes and attributes are changed at random as far as its type inference
accepts them. Its operands are values made before, brought into the sample's shape by reshapes, tiles and slices and
into its range by clips, or new inputs, weights and constants. All values are computed on the way. Some ops are
control flow (random_control.py); some graphs have empty tensors, and some samples other element types.
"""

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from hypothesis import strategies as st
from random_control import control
from xdsl.dialects.builtin import FunctionType, ModuleOp, f32, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import graph as g
from mlc.dialects.graph.graph_numpy import evaluate, result_dtype
from mlc.dialects.graph.op_attributes import Bool, Int, Ints
from mlc.dialects.graph.types import element_type
from mlc.support.weights import WeightStore

LARGEST = 1e4
SOURCES = ("graph.param", "graph.constant", "graph.full", "graph.iota")
# Winograd's ops are made by a pass, for weights that it chose; the rest of the dialect is drawn.
NOT_DRAWN = {"graph.param", "graph.constant", "graph.winograd_weight", "graph.conv2d_winograd"}
DRAWN = [cls for name, cls in sorted(g.OPS.items()) if name not in (*NOT_DRAWN, "graph.full") and cls.samples()]
# Contractions, reductions and movements are what compilers get wrong: they are drawn more often.
WEIGHTS = {
    "conv2d": 6, "dense": 4, "batch_matmul": 4, "max_pool2d": 2, "avg_pool2d": 2, "conv2d_transpose": 2, "sum": 3,
    "mean": 2, "max": 2, "softmax": 3, "layer_norm": 2, "batch_norm": 3, "reshape": 4, "transpose": 5, "slice": 4,
    "concatenate": 5, "split": 3, "pad": 3, "broadcast_to": 2, "add": 6, "multiply": 5, "subtract": 2, "relu": 4,
    "bias_add": 3, "where": 2, "sigmoid": 2, "clip": 2, "layout_transform": 2, "take": 2, "cast": 2,
}  # fmt: skip
TABLE = [cls for cls in DRAWN for _ in range(WEIGHTS.get(cls.name.removeprefix("graph."), 1))]
FLOATS = tuple(map(element_type, ("float16", "bfloat16", "float64")))
INTEGERS = tuple(map(element_type, ("int8", "int16", "int32", "int64", "uint8", "uint32")))


@dataclass(frozen=True)
class Style:
    """What graphs are like: sizes, elements of a value at most, and how often (percent) something rare is drawn."""

    sizes: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
    elements: int = 3000
    empty: int = 3
    """Graphs in which sizes may be 0."""
    types: int = 8
    """Samples with other element types."""
    control: int = 4
    """Ops that are control flow."""


PLAIN = Style(empty=0, types=0, control=0)
LARGE = Style((1, 3, 7, 13, 17, 31, 33, 47, 64, 65, 100, 130), 200_000)
STYLES = {
    "default": Style(), "plain": PLAIN, "large": LARGE, "types": Style(types=60), "control": Style(control=35),
    "empty": Style(empty=100),
}  # fmt: skip


@dataclass
class Case:
    """A graph, its weights, and arrays to run it on."""

    module: ModuleOp
    store: WeightStore
    inputs: list = field(default_factory=list)

    def _repr_pretty_(self, printer, cycle):
        """For hypothesis, which would print the fields of each operation, and those of its neighbours."""
        printer.text(f"a graph of {sum(1 for _ in self.module.walk())} operations")

    @property
    def main(self):
        return next(op for op in self.module.body.block.ops if isinstance(op, FuncOp))

    def copy(self) -> "Case":
        """Another of which passes may change everything."""
        store = WeightStore()
        for name in self.store:
            store.add(name, self.store.array(name))
        return Case(self.module.clone(), store, self.inputs)

    def size(self) -> int:
        """How many ops compute."""
        return sum(op.name not in SOURCES for op in self.main.body.block.ops) - 1


class Builder:
    """A graph in the making: the values so far with their arrays."""

    def __init__(self, seed: int, style: Style = STYLES["default"]):
        self.choose = Random(seed).randrange
        self.style = style
        self.sizes = (0, *style.sizes) if self.chance(style.empty) else style.sizes
        self.block = Block()
        self.store = WeightStore()
        self.inputs: list = []
        self.pool: list = []
        self.arrays: dict = {}
        self.rng = np.random.default_rng(self.choose(1 << 20))

    def chance(self, percent: int) -> bool:
        """True so often; the simplest example never."""
        return self.choose(100) >= 100 - percent

    def pick(self, items):
        """One of the items."""
        return items[self.choose(len(items))]

    def add(self, op) -> list:
        """Append an op whose results are finite and not large; VerifyException otherwise."""
        results = evaluate(op, [self.arrays[operand] for operand in op.operands])
        return self.keep(op, results)

    def keep(self, op, results) -> list:
        """Append an op with these results; VerifyException if they are not finite, or large."""
        for array in results:
            if array.size > self.style.elements or (array.size == 0 and 0 not in self.sizes):
                raise VerifyException("too many elements, or none")
            if floating(array.dtype) and not np.all(np.abs(array) < LARGEST):
                raise VerifyException("not finite, or too large")
        self.block.add_op(op)
        self.arrays.update(zip(op.results, results, strict=True))
        return list(op.results)

    def leaf(self, type, low: float, high: float, integers) -> object:
        """A new input, weight or constant."""
        array = self.random(type, low, high, integers)
        op, kind = None, self.choose(4)
        if kind == 1 and floating(array.dtype):
            name = f"w{len(self.store)}"
            self.store.add(name, array)
            op = g.ParamOp.make(result=type, entry=name)
        elif kind == 2 and array.size <= g.ConstantOp.MAX_ELEMENTS:
            op = g.ConstantOp.make(array)
        elif kind == 3 and floating(array.dtype) and array.size:
            value = float(array.reshape(-1)[0])
            op = g.FullOp.make(array.shape, value, type.element_type)
            array = np.full(array.shape, value, array.dtype)
        if op is None:
            return self.argument(type, array)
        self.block.add_op(op)
        self.arrays[op.result] = array
        return op.result

    def argument(self, type, array):
        """A new input."""
        value = self.block.insert_arg(type, len(self.block.args))
        self.inputs.append(array)
        self.arrays[value] = array
        return value

    def random(self, type, low, high, integers):
        dtype, shape = result_dtype(type), type.get_shape()
        if np.prod(shape) > self.style.elements:
            raise VerifyException("too many elements")
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            low = max(integers[0], 0) if dtype.kind == "u" else integers[0]
            return self.rng.integers(low, max(integers[1], low + 1), shape).astype(dtype)
        return self.rng.uniform(low, high, shape).astype(dtype)

    def operand(self, type, sample, keep: bool):
        """A value of this type, or with `keep` of any shape, within the sample's range."""
        candidates = [v for v in self.pool if v.type.element_type == type.element_type]
        dtype = result_dtype(type)
        if dtype.kind in "iu":
            low, high = sample.integers
            candidates = [v for v in candidates if within(self.arrays[v], low, high - 1)]
        if not candidates or not self.chance(75):
            return self.leaf(type, sample.low, sample.high, sample.integers)
        value = candidates[-1 - self.choose(min(len(candidates), 6))]
        if not keep:
            value = self.shaped(value, type.get_shape())
        if floating(dtype) and not within(self.arrays[value], sample.low, sample.high):
            (value,) = self.add(g.ClipOp.make(value, min=sample.low, max=sample.high))
        return value

    def shaped(self, value, shape):
        """The elements of a value in another shape, repeated or cut off as needed."""
        have, size = self.arrays[value].shape, int(np.prod(shape))
        if have == tuple(shape):
            return value
        element = value.type.element_type
        try:
            if np.broadcast_shapes(have, shape) == tuple(shape) and self.chance(70):
                return self.add(g.BroadcastToOp.make(value, result=g.tensor(shape, element)))[0]
        except ValueError:
            pass
        count = int(np.prod(have))
        if count == 0 != size:
            raise VerifyException("nothing cannot be repeated")
        if len(have) != 1:
            (value,) = self.add(g.ReshapeOp.make(value, result=g.tensor((count,), element)))
        if count < size:
            (value,) = self.add(g.TileOp.make(value, reps=(-(-size // count),)))
            count *= -(-size // count)
        if count > size:
            (value,) = self.add(g.SliceOp.make(value, begin=(0,), end=(size,), strides=(1,)))
        if len(shape) != 1:
            (value,) = self.add(g.ReshapeOp.make(value, result=g.tensor(shape, element)))
        return value

    def op(self) -> None:
        """Add one op, as far from its sample as is valid."""
        if self.chance(self.style.control):
            self.attempt(lambda: control(self))
            return
        cls = self.pick(TABLE)
        sample = self.pick(cls.samples())
        changed, keep = self.resized(sample), self.chance(40)
        if not self.attempt(lambda: self.instance(cls, changed, self.attributes(cls, sample.attrs), keep)):
            self.attempt(lambda: self.instance(cls, sample, sample.attrs, False))

    def instance(self, cls, sample, attrs, keep: bool) -> list:
        """Add an op like a sample."""
        operands = [self.operand(type, sample, keep) for type in sample.operands]
        given = {} if sample.result is None else {"result": sample.result}
        return self.add(cls.make(*operands, **given, **attrs))

    def attempt(self, make) -> bool:
        """Whether `make` could add values; what it has left behind otherwise is removed."""
        before = list(self.block.ops)
        try:
            self.pool += make()
        except (VerifyException, ValueError, IndexError, OverflowError, ZeroDivisionError):
            self.drop_after(before)
            return False
        return True

    def drop_after(self, before: list) -> None:
        """Remove what an attempt has left behind."""
        kept = set(before)
        for op in reversed(list(self.block.ops)):
            if op not in kept:
                for result in op.results:
                    self.arrays.pop(result, None)
                op.detach()
                op.erase(safe_erase=False)

    def resized(self, sample):
        """The sample with other sizes (equal ones stay equal, 1 stays 1), and perhaps other element types."""
        sizes = {n for t in (*sample.operands, *([sample.result] if sample.result else [])) for n in t.get_shape()}
        to = {n: n if n == 1 or not self.chance(60) else self.pick(self.sizes) for n in sorted(sizes)}
        elements = self.elements()

        def other(type):
            return g.tensor([to[n] for n in type.get_shape()], elements.get(type.element_type, type.element_type))

        result = None if sample.result is None else other(sample.result)
        operands = tuple(map(other, sample.operands))
        low, high = sample.integers
        least = (
            min(operands[0].get_shape(), default=1) if operands else 1
        )  # integers may be indices into the first operand
        integers = (max(low, -least), min(high, least))
        return replace(sample, operands=operands, result=result, integers=integers)

    def elements(self) -> dict:
        """Element type -> what stands in for it."""
        if not self.chance(self.style.types):
            return {}
        integers = self.pick(INTEGERS)
        return {f32: self.pick(FLOATS), i32: integers, i64: integers}

    def attributes(self, cls, attrs):
        """The sample's attributes, some of them changed."""
        changed = dict(attrs)
        for name, declared in cls.declared.items():
            value = changed.get(name, declared.default)
            if value is None or not self.chance(25):
                continue
            if isinstance(declared, Bool):
                changed[name] = not value
            elif isinstance(declared, Int) and cls is not g.ArgsortOp:
                changed[name] = self.choose(5) - 1
            elif isinstance(declared, Ints) and len(value) and max(value) < 100:
                changed[name] = tuple(self.choose(4) if self.chance(50) else v for v in value)
        return changed

    def region(self, types) -> "Builder":
        """A builder of a region with arguments of these types; what it needs besides are weights and constants."""
        inner = RegionBuilder(self)
        for type in types:
            value = inner.block.insert_arg(type, len(inner.block.args))
            inner.arrays[value] = self.random(type, -2, 2, (0, 3))
            if type.element_type == f32:
                inner.pool.append(value)
        return inner

    def case(self) -> Case:
        """The finished graph: what nothing reads is an output, and some of the rest."""
        last = [v for v in self.pool if not any(use.operation.parent is self.block for use in v.uses)]
        more = [v for v in self.pool if v not in last and self.chance(12)]
        outputs = (last + more)[:6]
        self.block.add_op(ReturnOp(*outputs))
        types = FunctionType.from_lists(list(self.block.arg_types), [v.type for v in outputs])
        # a clone, for ops that were refused still stand among the uses of these values
        module = ModuleOp([FuncOp("main", types, Region(self.block))]).clone()
        case = Case(module, self.store, self.inputs)
        remove_dead(case)
        return case


class RegionBuilder(Builder):
    """A region in the making: it is isolated, and has no inputs of its own."""

    def __init__(self, outer: Builder):
        super().__init__(0, replace(outer.style, control=outer.style.control // 4))
        self.choose, self.rng, self.store, self.sizes = outer.choose, outer.rng, outer.store, outer.sizes

    def argument(self, type, array):
        if array.size > g.ConstantOp.MAX_ELEMENTS:
            raise VerifyException("expected a small constant")
        (value,) = self.keep(g.ConstantOp.make(array), [array])
        return value


def remove_dead(case: Case) -> None:
    """Remove the ops, inputs and weights of a case that no output needs."""
    block = case.main.body.block
    for op in reversed(list(block.ops)):
        if not isinstance(op, ReturnOp) and not any(True for r in op.results for _ in r.uses):
            op.detach()
            op.erase()
    for index in reversed(range(len(block.args))):
        if not any(True for _ in block.args[index].uses):
            block.erase_arg(block.args[index])
            del case.inputs[index]
    outputs = [v.type for v in block.last_op.operands]
    case.main.properties["function_type"] = FunctionType.from_lists(list(block.arg_types), outputs)
    used = {op.entry for op in case.main.walk() if isinstance(op, g.ParamOp)}
    store = WeightStore()
    for name in case.store:
        if name in used:
            store.add(name, case.store.array(name))
    case.store = store


def floating(dtype) -> bool:
    """Whether a dtype is of floating point; bfloat16 is numpy's only in part."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def within(array, low, high) -> bool:
    """Whether all elements are in low..high."""
    return bool((array >= low).all() and (array <= high).all())


def graph_of(seed: int, low: int = 2, high: int = 12, style: Style = STYLES["default"]) -> Case:
    """The graph of a seed: so many drawn ops, and what brings their operands into shape."""
    builder = Builder(seed, style)
    for _ in range(low + builder.choose(high - low + 1)):
        builder.op()
    while not builder.pool:
        builder.op()
    return builder.case()


def graphs(low: int = 2, high: int = 8) -> st.SearchStrategy:
    """
    Graphs of so many drawn ops.

    They are drawn by their seed and made smaller op by op (fuzz_oracle.reduced_case), which shortens them further than
    hypothesis could shrink a list of choices.
    """
    return st.integers(0, 2**64 - 1).map(lambda seed: graph_of(seed, low, high))
