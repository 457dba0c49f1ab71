"""te-inline and te -> loop keep the values of random kernels, and inline what they should."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, NameLoc, NoneAttr, StringAttr, UnitAttr
from xdsl.ir import Block, Region

from mlc.dialects import graph as g
from mlc.dialects.graph.types import static_shape, tensor
from mlc.interp import loop as loop_interp
from mlc.interp import te as interp
from mlc.lowering.graph_to_te.convert import convert_kernel
from mlc.lowering.te_to_loop.convert import convert_func
from mlc.passes.te.inline import inline_func


class Chain:
    """A kernel function that grows op by op."""

    def __init__(self, *shapes, dtypes=None):
        types = [tensor(s, d) for s, d in zip(shapes, dtypes or ["float32"] * len(shapes), strict=True)]
        self.block = Block(arg_types=types)
        self.args = list(self.block.args)

    def add(self, op_class, *operands, **attrs):
        op = op_class.make(*operands, **attrs)
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else tuple(op.results)

    def lower(self, *results):
        types = [r.type for r in results]
        self.block.add_op(func.ReturnOp(*results))
        kernel = func.FuncOp.create(
            properties={
                "sym_name": func.StringAttr("kernel"),
                "function_type": FunctionType.from_lists([a.type for a in self.args], types),
            },
            attributes={"graph.kernel": UnitAttr()},
            regions=[Region(self.block)],
        )
        return convert_kernel(kernel)


def check(lowered, arrays, stages=None):
    """The same values before and after te-inline, and in the loops."""
    before = interp.run(lowered, arrays)
    inline_func(lowered)
    lowered.verify()
    after = interp.run(lowered, arrays)
    nest = convert_func(lowered)
    nest.verify()
    outs = [np.zeros_like(b) for b in before]
    last = loop_interp.run(nest, [*arrays, *outs])
    for a, b, c in zip(before, after, last, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-5)
    if stages is not None:
        assert [s.stage_name for s in lowered.stages] == stages
    return lowered


def grid(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def test_elementwise_chain_is_one_stage():
    c = Chain((3, 4), (3, 4))
    x = c.add(g.AddOp, *c.args)
    x = c.add(g.ExpOp, x)
    x = c.add(g.MultiplyOp, x, c.args[0])
    x = c.add(g.ReluOp, x)
    check(c.lower(x), [grid(3, 4), grid(3, 4, seed=1)], ["relu"])


def test_square_of_a_stage_computes_it_once():
    c = Chain((8,))
    x = c.args[0]
    for _ in range(6):
        x = c.add(g.ExpOp, c.add(g.NegOp, c.add(g.MultiplyOp, x, x)))
    lowered = check(c.lower(x), [grid(8)], ["exp_5"])
    assert [op.name for op in lowered.stages[0].body.block.ops].count("math.exp") == 6


def test_expensive_stage_with_two_readers_stays():
    c = Chain((4, 8))
    e = c.add(g.ExpOp, c.args[0])
    s = c.add(g.SumOp, e, axes=(1,), keepdims=True)
    check(c.lower(c.add(g.DivideOp, e, s)), [grid(4, 8)], ["exp", "sum", "divide"])


def test_epilogue_and_pad_of_a_convolution():
    c = Chain((1, 3, 6, 6), (4, 3, 3, 3), (4,))
    x = c.add(g.ReluOp, c.args[0])
    x = c.add(g.Conv2dOp, x, c.args[1], padding=(1, 1, 1, 1))
    x = c.add(g.ReluOp, c.add(g.BiasAddOp, x, c.args[2]))
    # relu is computed where the padded picture is made; "pad" itself is read many times
    check(c.lower(x), [grid(1, 3, 6, 6), grid(4, 3, 3, 3), grid(4)], ["pad", "conv2d", "relu_1"])


def test_transpose_goes_into_the_product_but_arithmetic_does_not():
    c = Chain((8, 6), (8, 7))
    t = c.add(g.TransposeOp, c.args[0], axes=(1, 0))
    check(c.lower(c.add(g.BatchMatmulOp, t, c.args[1])), [grid(8, 6), grid(8, 7)], ["batch_matmul"])
    c = Chain((6, 8), (8, 7))
    t = c.add(g.AddOp, c.args[0], c.args[0])
    check(c.lower(c.add(g.BatchMatmulOp, t, c.args[1])), [grid(6, 8), grid(8, 7)], ["add", "batch_matmul"])


def test_masked_read_of_an_inlined_stage_keeps_its_else_value():
    c = Chain((4,))
    x = c.add(g.PadOp, c.add(g.ExpOp, c.args[0]), pad_width=(2, 1), value=5.0)
    lowered = check(c.lower(x), [grid(4)], ["pad"])
    assert interp.run(lowered, [grid(4)])[0][0] == 5


def test_masks_of_pads_and_concatenations_compose():
    c = Chain((3, 4), (3, 2))
    x = c.add(g.ConcatenateOp, *c.args, axis=1)
    x = c.add(g.PadOp, x, pad_width=(1, 1, 2, 3), value=7.0)
    x = c.add(g.PadOp, x, pad_width=(0, 2, 1, 0), value=7.0)
    x = c.add(g.FlipOp, x, axes=(0, 1))
    lowered = check(c.lower(x), [grid(3, 4), grid(3, 2)], ["flip"])
    assert lowered.stages[0].body.block.ops


def test_output_that_is_also_read_stays():
    c = Chain((4,))
    x = c.add(g.NegOp, c.args[0])
    y = c.add(g.AbsOp, x)
    check(c.lower(x, y, c.args[0], y), [grid(4)], ["neg", "abs"])


def test_gather_is_inlined_with_its_index():
    c = Chain((5, 3), (4,), dtypes=["float32", "int64"])
    x = c.add(g.TakeOp, c.args[0], c.args[1])
    x = c.add(g.TransposeOp, c.add(g.NegOp, x), axes=(1, 0))
    check(c.lower(x), [grid(5, 3), np.array([0, -1, 3, 2])], ["transpose"])


# --- random kernels ----------------------------------------------------------------------------------------------


def _grow(c, rng, pool):
    """One more op on values of the pool."""
    x = rng.choice(pool)
    shape = static_shape(x.type)
    rank = len(shape)
    axis = rng.randrange(rank)
    kind = rng.randrange(12)
    same = [v for v in pool if static_shape(v.type) == shape]
    if kind == 0:
        return c.add(rng.choice([g.NegOp, g.ReluOp, g.ExpOp, g.TanhOp, g.AbsOp]), c.add(g.TanhOp, x))
    if kind in (1, 2):
        return c.add(rng.choice([g.AddOp, g.MultiplyOp, g.MaximumOp]), x, rng.choice(same))
    if kind == 3:
        return c.add(g.TransposeOp, x, axes=tuple(rng.sample(range(rank), rank)))
    if kind == 4:
        total = int(np.prod(shape))
        split = rng.choice([d for d in range(1, total + 1) if total % d == 0])
        return c.add(g.ReshapeOp, x, (split, total // split))
    if kind == 5:
        return c.add(g.PadOp, x, pad_width=[rng.randrange(3) for _ in range(2 * rank)], value=rng.choice([0.0, 1.5]))
    if kind == 6:
        return c.add(g.ConcatenateOp, x, rng.choice(same), x, axis=axis)
    if kind == 7:
        begin = [rng.randrange(n) for n in shape]
        return c.add(g.SliceOp, x, begin=begin, end=shape, strides=[rng.choice([1, 2]) for _ in shape])
    if kind == 8:
        return c.add(g.FlipOp, x, axes=(axis,))
    if kind == 9:
        return c.add(rng.choice([g.SumOp, g.MaxOp, g.MeanOp]), x, axes=(axis,), keepdims=rank == 1)
    if kind == 10:
        mode = "edge" if rng.random() < 0.5 or shape[axis] < 2 else "reflect"
        width = [0] * (2 * rank)
        width[2 * axis] = width[2 * axis + 1] = 1
        return c.add(g.PadOp, x, pad_width=width, mode=mode)
    return c.add(g.TileOp, x, reps=[2 if a == axis else 1 for a in range(rank)])


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_keep_their_values(seed):
    rng = random.Random(seed)
    shape = rng.choice([(4, 6), (2, 3, 4), (5,), (3, 1, 4)])
    c = Chain(shape, shape)
    pool = list(c.args)
    while len(pool) < 8:
        value = _grow(c, rng, pool[-3:] + pool[:2])
        if np.prod(static_shape(value.type)) < 400:
            pool.append(value)
    check(c.lower(pool[-1], pool[-2]), [grid(*shape, seed=seed), grid(*shape, seed=seed + 1)])


def test_a_look_up_in_a_look_up_is_not_inlined():
    chain = Chain((5, 6), (3,), (4,), dtypes=["float32", "int64", "int64"])
    x, rows, columns = chain.args
    picked = chain.add(g.TakeOp, chain.add(g.TakeOp, x, rows, axis=0), columns, axis=1)
    lowered = chain.lower(picked)
    arrays = [np.arange(30, dtype=np.float32).reshape(5, 6), np.array([4, 0, -1]), np.array([5, 1, 1, 2])]
    check(lowered, arrays)
    assert len(lowered.stages) == 2


def test_a_look_up_in_another_shape_is_not_inlined():
    chain = Chain((5, 6), (4,), dtypes=["float32", "int64"])
    x, places = chain.args
    picked = chain.add(g.TakeOp, chain.add(g.ReshapeOp, x, shape=(30,)), places, axis=0)
    lowered = chain.lower(picked)
    check(lowered, [np.arange(30, dtype=np.float32).reshape(5, 6), np.array([29, 0, -1, 7])])
    assert len(lowered.stages) == 2


def test_operations_keep_their_locations_into_the_loops():
    k = Chain((4, 8))
    x = k.args[0]
    y = k.lower(k.add(g.ReluOp, k.add(g.ExpOp, x)))
    for stage in y.stages:
        for op in stage.walk():
            op.location = NameLoc(StringAttr(stage.stage_name), NoneAttr())
    inline_func(y)
    assert len(y.stages) == 1
    kinds = {op.name: op.location.desc.data for op in convert_func(y).walk() if isinstance(op.location, NameLoc)}
    assert kinds["math.exp"] == "exp"
    assert kinds["arith.maximumf"] == "relu"
    assert kinds["loop.for"] == "relu"


def test_an_epilogue_of_a_product_that_is_read_twice_stays_a_stage():
    chain = Chain((2, 8, 16), (2, 16, 24))
    scores = chain.add(g.BatchMatmulOp, *chain.args)
    half = chain.add(g.FullOp, shape=(2, 8, 24), value=0.5)
    lowered = chain.lower(chain.add(g.SoftmaxOp, chain.add(g.MultiplyOp, scores, half)))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 8, 16), (2, 16, 24))]
    check(lowered, arrays)
    names = [stage.stage.data for stage in lowered.stages]
    assert "multiply" in names
    assert names.index("multiply") == names.index("batch_matmul") + 1
