"""Random networks of few shapes and many constants, in which rules match often: each pass keeps the values."""

import numpy as np
import pytest
from graph_passes import random_array, random_store

from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function
from mlc.support.arithmetic import WIDE

PASSES = [
    "graph-canonicalize",
    "graph-simplify-inference",
    "graph-simplify-expr",
    "graph-fold-scale-axis",
    "graph-merge-branches",
    "graph-eliminate-common-subexpr",
    "graph-combine-parallel-conv2d,graph-combine-parallel-dense",
    "graph-convert-layout{desired=conv2d:NHWC}",
    "graph-alter-op-layout",
    "graph-canonicalize-ops,graph-canonicalize-cast",
    "graph-fuse-ops",
    "graph-fuse-ops{mode=tvm}",
]
C, S = 4, 6
CONSTANTS = ["", "1", f"{C}x1x1", f"1x{C}x1x1", f"{S}x1", f"{S}", f"{C}x{S}x{S}", f"2x{C}x{S}x{S}"]
UNARY = ["relu", "neg", "abs", "leaky_relu", "sigmoid", "tanh", "exp", "sqrt", "clip"]
ATTRS = {"clip": " {min = -0.5, max = 0.75}", "leaky_relu": " {alpha = 0.25}"}


class Network:
    """A function in the making: pictures of one shape, with ops that rules are about."""

    def __init__(self, seed, steps):
        self.rng = np.random.default_rng(seed)
        self.type = f"tensor<2x{C}x{S}x{S}xf32>"
        self.lines, self.values, self.count = [], ["%x"], 0
        for _ in range(steps):
            getattr(self, self.pick([*["constants"] * 6, "unary", "unary", "binary", *OTHERS]))()

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def value(self):
        """One of the values, mostly the last."""
        return self.values[-1] if self.rng.random() < 0.9 else self.pick(self.values)

    def name(self):
        self.count += 1
        return f"%{self.count}"

    def add(self, text, result=None):
        """A line; its result is a new value."""
        name = self.name()
        self.lines.append(f"{name} = graph.{text}")
        return name if result is not None else self.values.append(name)

    def weight(self, shape):
        """A constant: a weight, or the same number everywhere; and its type."""
        type = f"tensor<{shape}xf32>" if shape else "tensor<f32>"
        name = self.name()
        number = self.pick([0.0, 1.0, 2.0, -0.5, 0.25])
        kind = self.rng.integers(4)
        sources = [
            f'graph.param "pos.w{self.count}" : {type}',
            f'graph.param "w{self.count}" : {type}',
            f"graph.constant dense<{number}> : {type}",
            f"graph.full {{value = {number}}} : {type}",
        ]
        self.lines.append(f"{name} = {sources[kind]}")
        return name, type

    def unary(self):
        op = self.pick(UNARY)
        self.add(f"{op} {self.value()}{ATTRS.get(op, '')} : {self.type}")

    def binary(self):
        self.add(
            f"{self.pick(['add', 'subtract', 'multiply', 'maximum'])} {self.value()}, {self.value()} : {self.type}"
        )

    def constants(self):
        """Sums and products with constants, one behind the other."""
        for _ in range(self.rng.integers(1, 4)):
            self.constant(self.pick(["add", "subtract", "multiply", "multiply", "divide", "maximum"]))

    def constant(self, op):
        c, type = self.weight(self.pick(CONSTANTS))
        sides = [(self.value(), self.type), (c, type)]
        if op != "divide" and self.rng.random() < 0.4:
            sides.reverse()
        (a, s), (b, t) = sides
        self.add(f"{op} {a}, {b} : ({s}, {t}) -> {self.type}")

    def bias(self):
        axis = int(self.rng.integers(1, 4))
        b, type = self.weight(str((C, S, S)[axis - 1]))
        self.add(f"bias_add {self.value()}, {b} {{axis = {axis}}} : ({self.type}, {type}) -> {self.type}")

    def conv(self):
        groups, kernel = self.pick([1, 1, 2, C]), self.pick([1, 3])
        w, type = self.weight(f"{C}x{C // groups}x{kernel}x{kernel}")
        attrs = f"groups = {groups}, padding = [{kernel // 2}, {kernel // 2}, {kernel // 2}, {kernel // 2}]"
        self.add(f"conv2d {self.value()}, {w} {{{attrs}}} : ({self.type}, {type}) -> {self.type}")

    def convs(self):
        """Three of one picture, for what combines them."""
        value = self.value()
        for _ in range(3):
            w, type = self.weight(f"{C}x{C}x1x1")
            self.add(f"conv2d {value}, {w} : ({self.type}, {type}) -> {self.type}")

    def pool(self):
        window = "pool_size = [3, 3], padding = [1, 1, 1, 1]"
        self.add(f"{self.pick(['max_pool2d', 'avg_pool2d'])} {self.value()} {{{window}}} : {self.type}")

    def dense(self):
        w, type = self.weight(f"{S}x{S}")
        self.add(f"dense {self.value()}, {w} : ({self.type}, {type}) -> {self.type}")

    def norm(self):
        vectors = [self.weight(str(C)) for _ in range(3)]
        variance = self.name()
        self.lines.append(f'{variance} = graph.param "pos.v{self.count}" : tensor<{C}xf32>')
        operands = ", ".join([self.value(), *(name for name, _ in vectors), variance])
        self.add(f"batch_norm {operands} : ({self.type}{f', tensor<{C}xf32>' * 4}) -> {self.type}")

    def swap(self):
        """Rows and columns."""
        self.add(f"transpose {self.value()} {{axes = [0, 1, 3, 2]}} : {self.type}")

    def split(self):
        """Halves, one of them changed, side by side again."""
        axis, half = self.pick([(1, f"2x{C // 2}x{S}x{S}"), (2, f"2x{C}x{S // 2}x{S}")])
        type, value = f"tensor<{half}xf32>", self.value()
        size = (2, C, S, S)[axis]
        parts = []
        for part in range(2):
            begin, end = [0] * 4, [2, C, S, S]
            begin[axis], end[axis] = part * size // 2, (part + 1) * size // 2
            attrs = f"begin = {begin}, end = {end}, strides = [1, 1, 1, 1]"
            parts.append(self.add(f"slice {value} {{{attrs}}} : ({self.type}) -> {type}", type))
        parts[0] = self.add(f"{self.pick(['relu', 'neg'])} {parts[0]} : {type}", type)
        self.add(f"concatenate {', '.join(parts)} {{axis = {axis}}} : ({type}, {type}) -> {self.type}")

    def reshape(self):
        """There and back, with something pointwise between."""
        flat = f"tensor<2x{C * S}x{S}xf32>"
        inner = self.add(f"reshape {self.value()} : ({self.type}) -> {flat}", flat)
        inner = self.add(f"{self.pick(['relu', 'neg', 'sigmoid'])} {inner} : {flat}", flat)
        self.add(f"reshape {inner} : ({flat}) -> {self.type}")

    def mean(self):
        """A squeeze and excitation: the mean of each channel as a factor."""
        axes, keep = self.pick([("[2, 3]", f"tensor<2x{C}x1x1xf32>"), ("[1]", f"tensor<2x1x{S}x{S}xf32>")])
        value = self.value()
        mean = self.add(f"mean {value} {{axes = {axes}, keepdims = true}} : ({self.type}) -> {keep}", keep)
        self.add(f"multiply {value}, {mean} : ({self.type}, {keep}) -> {self.type}")

    def text(self):
        outputs = [self.values[-1], *(v for v in self.values[1:-1] if self.rng.random() < 0.1)]
        returned, types = ", ".join(outputs), ", ".join([self.type] * len(outputs))
        return (
            f"func.func @main(%x: {self.type}) -> ({types}) {{\n"
            + "\n".join(self.lines)
            + f"\nreturn {returned} : {types}\n}}"
        )


OTHERS = ["bias", "conv", "conv", "convs", "pool", "dense", "norm", "swap", "split", "reshape", "mean"]


def check(seed, passes, steps=10):
    """Values before and after some passes, in f64: what differs is wrong, not rounding."""
    from mlc.interp.graph import Interpreter

    text = Network(seed, steps).text()
    module = parse_module(text)
    store = random_store(module, seed)
    inputs = [random_array(np.random.default_rng(seed), type) for type in main_function(module).function_type.inputs]
    before = Interpreter(store, WIDE).run(main_function(module), inputs)
    attach_store(module, store)
    run_passes(module, make_context(), passes, verify=True)
    after = Interpreter(store, WIDE).run(main_function(module), inputs)
    for a, b in zip(before, after, strict=True):
        finite = np.isfinite(a)
        if finite.all():
            np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-3 * max(1.0, float(np.abs(a).max())), err_msg=text)


@pytest.mark.parametrize("seed", range(8))
def test_each_pass_keeps_the_values(seed):
    for passes in PASSES:
        check(seed, [passes])


@pytest.mark.parametrize("seed", range(8, 24))
def test_passes_one_after_the_other_keep_the_values(seed):
    order = np.random.default_rng(seed).permutation(PASSES[:9])
    check(seed, [*order, "graph-fold-constant", "graph-fuse-ops"])
