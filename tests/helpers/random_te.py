"""
Random te functions for each of mlc's strategies: `random_task("matmul", rng)` is the task of one that it accepts.

Sizes are small, and seldom multiples of a vector's lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import strategy_cases as cases
from xdsl.dialects.builtin import TensorType
from xdsl.parser import Parser

from mlc import te
from mlc.driver.operator.source import operator_source
from mlc.driver.pipeline.manager import make_context
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore
from mlc.tuning.extract import extract_tasks, task_of
from mlc.tuning.space import Part
from mlc.tuning.task import Task

ATTENTION = """
func.func @main(%q: tensor<{h}x{n}x{d}xf32>, %k: tensor<{h}x{d}x{s}xf32>, %v: tensor<{h}x{s}x{e}xf32>)
    -> tensor<{h}x{n}x{e}xf32> {{
  %0 = graph.batch_matmul %q, %k : (tensor<{h}x{n}x{d}xf32>, tensor<{h}x{d}x{s}xf32>) -> tensor<{h}x{n}x{s}xf32>
  %1 = graph.softmax %0 : tensor<{h}x{n}x{s}xf32>
  %2 = graph.batch_matmul %1, %v : (tensor<{h}x{n}x{s}xf32>, tensor<{h}x{s}x{e}xf32>) -> tensor<{h}x{n}x{e}xf32>
  func.return %2 : tensor<{h}x{n}x{e}xf32>
}}
"""
CONV = """
func.func @main(%x: tensor<1x{c}x{h}x{w}xf32>) -> tensor<1x{k}x{h}x{w}xf32> {{
  %w = graph.param "w" : tensor<{k}x{c}x3x3xf32>
  %0 = graph.conv2d %x, %w {{padding = [1, 1, 1, 1]}}
      : (tensor<1x{c}x{h}x{w}xf32>, tensor<{k}x{c}x3x3xf32>) -> tensor<1x{k}x{h}x{w}xf32>
  func.return %0 : tensor<1x{k}x{h}x{w}xf32>
}}
"""
DEPTHWISE = """
func.func @main(%x: tensor<1x{c}x{h}x{w}xf32>) -> tensor<1x{c}x{h}x{w}xf32> {{
  %w = graph.param "w" : tensor<{c}x1x{k}x{k}xf32>
  %0 = graph.conv2d %x, %w {{groups = {c}, padding = [{p}, {p}, {p}, {p}]}}
      : (tensor<1x{c}x{h}x{w}xf32>, tensor<{c}x1x{k}x{k}xf32>) -> tensor<1x{c}x{h}x{w}xf32>
  func.return %0 : tensor<1x{c}x{h}x{w}xf32>
}}
"""


def _size(rng: Random, most: int = 40, least: int = 1) -> int:
    return rng.choice([rng.randint(least, most), 16 * rng.randint(1, max(1, most // 16))])


def product(rng: Random) -> str:
    """A product with a maximum behind it, plain or of packed weights."""
    m, k = _size(rng, least=2), _size(rng)
    return rng.choice([cases.dense(m, _size(rng, 70, 4), k), cases.dense(m, 32 * rng.randint(1, 3), k, packed=True)])


def contraction(rng: Random) -> str:
    """A convolution or a product of one of the forms in strategy_cases."""
    h, w, blocks = _size(rng, 12, 5), _size(rng, 20, 5), rng.randint(1, 2)
    return rng.choice(
        [
            lambda: cases.conv(blocks, rng.randint(1, 3), h, w, stride=rng.randint(1, 2), block=rng.choice([3, 16])),
            lambda: cases.conv(blocks, 2, h, w, kernel_size=1, pad=0, lanes=rng.choice([8, 16, 24])),
            lambda: cases.depthwise(blocks, h, w, stride=rng.randint(1, 2), pad=rng.randint(0, 1)),
            lambda: cases.grouped(2, blocks, rng.randint(1, 5), h, w),
            lambda: cases.groups_in_lanes(blocks, rng.choice([4, 8]), h, w),
            lambda: cases.dense_transposed(_size(rng, 20), _size(rng, 20), _size(rng, least=32), batch=blocks),
            lambda: cases.dense(1, _size(rng, 100), _size(rng)),
        ]
    )()


def dilated(rng: Random) -> str:
    """A convolution of which many taps fall into the padding."""
    by = rng.randint(5, 9)
    return cases.conv(2, rng.randint(1, 2), rng.randint(by + 1, 14), rng.randint(by + 1, 20), dilation=by, pad=by)


def planes(rng: Random) -> te.FuncOp:
    """A depthwise window over planes of pixels."""
    c, h, w, step = rng.randint(1, 3), _size(rng, 20, 5), _size(rng, 40, 5), rng.randint(1, 2)
    x, k = te.placeholder((c, h, w), name="x"), te.placeholder((c, 3, 3), name="k")
    p, q = te.reduce_axis(3, "p"), te.reduce_axis(3, "q")
    y = te.compute(
        (c, (h - 3) // step + 1, (w - 3) // step + 1),
        lambda n, i, j: te.sum(x[n, i * step + p, j * step + q] * k[n, p, q], axis=[p, q]),
        "y",
    )
    return te.func("window", [x, k], [y])


def reduction(rng: Random) -> str:
    """A reduction of some axes, or a window that slides."""
    shape = [_size(rng, 20) for _ in range(rng.randint(1, 4))]
    axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    h, w = _size(rng, 14, 5), _size(rng, 40, 5)
    return rng.choice(
        [
            lambda: cases.reduce_over(shape, axes, rng.choice(["sum", "max", "min"])),
            lambda: cases.pool(rng.randint(1, 2), h, w, rng.choice(["sum", "max"])),
            lambda: cases.plain_pool(rng.randint(1, 3), h, w, rng.randint(2, 3), rng.randint(1, 2)),
        ]
    )()


def rows(rng: Random) -> str:
    """A softmax, or a reduction along the rows."""
    n, k = _size(rng, 12), _size(rng, 100)
    return rng.choice([cases.softmax(n, k), cases.reduce_over((n, k), (1,), rng.choice(["sum", "max"]))])


def injective(rng: Random) -> str:
    """A pointwise stage, a transposition, or a change of layout."""
    a, b, c = (_size(rng) for _ in range(3))
    return rng.choice(
        [
            cases.pointwise((a, b), "%a0, %a1", (a, b)),
            cases.pointwise((a, b), "%a1, %a0", (b, a)),
            cases.pointwise((a, b, c), "%a0, %a2, %a1", (a, c, b)),
            cases.pointwise((a, b), "0, %a1", (1, b)),
            cases.to_padded_blocks(a, min(b, 9), min(c, 9)),
        ]
    )


def recurrence(rng: Random) -> te.FuncOp:
    """A scan whose step reads the state before and an input."""
    steps, n = rng.randint(2, 9), _size(rng)
    x, s = te.placeholder((steps, n), name="x"), te.placeholder((steps, n), name="s")
    first = te.compute((1, n), lambda _, j: x[0, j], "first")
    step = te.compute((steps, n), lambda t, j: te.maximum(s[t - 1, j] + x[t, j], 0.0), "step")
    return te.func("running", [x], [te.scan(first, step, s, inputs=[x])])


def vector_matrix(rng: Random) -> te.FuncOp:
    """A row times a plain matrix of long rows."""
    depth, n = rng.randint(17, 60), rng.randint(256, 400)
    x, w = te.placeholder((1, depth), name="x"), te.placeholder((depth, n), name="w")
    k = te.reduce_axis(depth, "k")
    return te.func("row", [x, w], [te.compute((1, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "row")])


OPERATORS: dict[str, Callable[[Random], str | te.FuncOp]] = {
    "matmul": product,
    "contraction": contraction,
    "dilated": dilated,
    "planes": planes,
    "vector_matrix": vector_matrix,
    "reduction": reduction,
    "rows": rows,
    "injective": injective,
    "recurrence": recurrence,
    "sketch": lambda rng: rng.choice([product, contraction, reduction, rows, injective])(rng),
}
STRATEGIES = [*OPERATORS, "attention", "winograd", "clipped"]


def _model(strategy: str, rng: Random) -> Model:
    """A model with a kernel of attention, of Winograd's convolution, or of a window as large as the picture."""
    weights = WeightStore()
    if strategy == "attention":
        sizes = {name: _size(rng, 24, 2) for name in "sde"}
        text = ATTENTION.format(h=rng.randint(1, 3), n=rng.randint(8, 40), **sizes)
    elif strategy == "clipped":
        c, h, w, p = rng.randint(3, 20), rng.randint(5, 8), rng.randint(5, 12), rng.randint(5, 8)
        text = DEPTHWISE.format(c=c, h=h, w=w, k=2 * p + 1, p=p)
        weights.add("w", np.ones((c, 1, 2 * p + 1, 2 * p + 1), np.float32))
    else:
        c, k, h, w = 16 * rng.randint(3, 4), 16 * rng.randint(2, 4), rng.randint(16, 24), rng.randint(16, 24)
        text = CONV.format(c=c, k=k, h=h, w=w)
        weights.add("w", np.ones((k, c, 3, 3), np.float32))
    return Model(Parser(make_context(), text).parse_module(), weights)


def random_task(strategy: str, rng: Random, target: str = "native") -> Task | None:
    """The task of a random operator with the strategy in its space; None where it does not accept what was drawn."""
    threads = rng.randint(1, 2)
    if strategy in OPERATORS:
        found = [task_of(OPERATORS[strategy](rng), target, threads, strategies=[strategy])]
    else:
        found = extract_tasks(_model(strategy, rng), target, threads, strategies=[strategy])
    return next((one for one in found if any(_is_of(part, strategy, one) for part in one.space.parts)), None)


def _is_of(part: Part, strategy: str, task: Task) -> bool:
    """Whether a part is of that strategy, and of the algorithm of the task's kernel."""
    return part.strategy == strategy and part.algorithm == task.space.parts[0].algorithm


def random_values(strategy: str, task: Task, rng: Random) -> dict[str, int | str | tuple[int, ...]]:
    """Random values of the knobs of that strategy."""
    (part,) = (one for one in task.space.parts if _is_of(one, strategy, task))
    return part.head | {knob.name: rng.choice(knob.candidates) for knob in part.knobs}


def random_arrays(task: Task, seed: int) -> list[np.ndarray]:
    """Inputs of small integers, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    func = operator_source(task.kernel).kernel
    types = [t for t in func.function_type.inputs if isinstance(t, TensorType)]
    return [rng.integers(-3, 4, t.get_shape()).astype(np.float32) for t in types]
