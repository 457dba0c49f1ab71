"""graph-collapse-dims: what is computed over one axis in place of two, op by op, and in kernels of open sizes."""

import numpy as np
import pytest
from graph_samples import arrays_of, make
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

import mlc
from mlc.dialects import graph as g
from mlc.dialects.graph.base import Sample
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.dialects.graph.types import static_shape
from mlc.passes.graph.fusion.fuse_ops import fuse
from mlc.passes.graph.layout.axis_labels import labels_of
from mlc.passes.graph.layout.collapse_dims import collapse, neighbours, spread

LONGER = [
    (g.AddOp, Sample((g.tensor((2, 3, 4)), g.tensor((3, 4))))),
    (g.SoftmaxOp, Sample((g.tensor((2, 3, 4, 5)),), {"axis": 1})),
    (g.SumOp, Sample((g.tensor((2, 3, 4, 5)),), {"axes": (2, 3)})),
    (g.BatchMatmulOp, Sample((g.tensor((2, 3, 4, 5)), g.tensor((2, 3, 5, 6))))),
    (g.TakeOp, Sample((g.tensor((4, 3)), g.tensor((2, 2), "int64")), {"axis": 1})),
]
"""Operands of more axes than those of an op's own samples."""
SAMPLES = [(cls, sample) for cls in g.OPS.values() for sample in cls.samples() if sample.operands] + LONGER
PLAIN = {f"graph.{name}" for name in ("relu", "add", "transpose", "sum", "softmax", "dense", "batch_matmul", "take")}


def function_of(cls, sample) -> FuncOp:
    func = FuncOp("main", (list(sample.operands), []))
    op = make(cls, sample, func.body.block.args)
    func.body.block.add_ops([op, ReturnOp(*op.results)])
    func.properties["function_type"] = FunctionType.from_lists(sample.operands, op.result_types)
    return func


def result_of(func: FuncOp, arrays) -> list[np.ndarray]:
    """The results of a function of graph ops, fused regions and reshapes."""
    known = dict(zip(func.body.block.args, arrays, strict=True))

    def run(block) -> None:
        for op in block.ops:
            if isinstance(op, g.FusedOp):
                known.update({a: known[v] for a, v in zip(op.body.block.args, op.operands, strict=True)})
                run(op.body.block)
                known.update({r: known[v] for r, v in zip(op.results, op.body.block.last_op.operands, strict=True)})
            elif isinstance(op, g.GraphOp):
                op.verify_()
                results = evaluate(op, [known[v] for v in op.operands])
                known.update(zip(op.results, results, strict=True))

    run(func.body.block)
    return [known[v] for v in func.body.block.last_op.operands]


def collapses(cls, sample) -> int:
    """The pairs of axes of a sample's values that can be one; the values of each are compared."""
    found = 0
    arrays = list(arrays_of(sample))
    expected = result_of(function_of(cls, sample), arrays)
    op = function_of(cls, sample).body.block.first_op
    places = [(k, pair) for k, v in enumerate((*op.operands, *op.results)) for pair in neighbours(v)]
    for k, pair in places:
        func = function_of(cls, sample)
        fused = fuse([func.body.block.first_op])
        (inner,) = [one for one in fused.body.block.ops if isinstance(one, cls)]
        pairs = spread(list(fused.body.block.ops), (*inner.operands, *inner.results)[k], pair)
        if pairs is None:
            continue
        collapse(fused, pairs)
        ModuleOp([func]).verify()
        for ours, theirs in zip(result_of(func, arrays), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        found += 1
    return found


def test_every_op_computes_the_same_over_one_axis():
    """Of each op, every two axes that its labels say are one loop."""
    counts: dict[str, int] = {}
    for cls, sample in SAMPLES:
        if static_shape(sample.operands[0]) is not None:
            counts[cls.name] = counts.get(cls.name, 0) + collapses(cls, sample)
    assert {name for name, count in counts.items() if count} >= PLAIN
    assert not counts["graph.resize2d"]
    assert not counts["graph.cumulative"]


def test_ops_without_labels_keep_their_axes():
    cls, sample = next((cls, sample) for cls, sample in SAMPLES if cls is g.Resize2dOp)
    assert labels_of(function_of(cls, sample).body.block.first_op) is None


OPEN = """
func.func @main(%x: tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>, %s: tensor<1x12x1x1xf32>)
    -> (tensor<?x?x?x12xf32, #graph.dims<[N, H, W]>>, tensor<?x12x1x1xf32, #graph.dims<[N]>>,
        tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>) {
  %0 = graph.transpose %x {axes = [0, 2, 3, 1]} : (tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>)
    -> tensor<?x?x?x12xf32, #graph.dims<[N, H, W]>>
  %1 = graph.mean %x {axes = [2, 3], keepdims = true} : (tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>)
    -> tensor<?x12x1x1xf32, #graph.dims<[N]>>
  %2 = graph.multiply %x, %s : (tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>, tensor<1x12x1x1xf32>)
    -> tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>
  %3 = graph.sigmoid %2 : tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>
  return %0, %1, %3 : tensor<?x?x?x12xf32, #graph.dims<[N, H, W]>>, tensor<?x12x1x1xf32, #graph.dims<[N]>>,
    tensor<?x12x?x?xf32, #graph.dims<[N, H, W]>>
}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [3, 12])
def test_kernels_of_pictures_of_any_size(tmp_path, channels, threads):
    (tmp_path / "model.mlir").write_text(OPEN.replace("12x", f"{channels}x"))
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    rng = np.random.default_rng(0)
    s = rng.standard_normal((1, channels, 1, 1), np.float32)
    for n, h, w in ((1, 1, 1), (2, 3, 5), (1, 17, 31), (3, 40, 33)):
        x = rng.standard_normal((n, channels, h, w), np.float32)
        turned, means, scaled = exe({spec.name: a for spec, a in zip(exe.inputs, (x, s), strict=True)}).values()
        np.testing.assert_array_equal(turned, x.transpose(0, 2, 3, 1))
        np.testing.assert_allclose(means, x.mean((2, 3), keepdims=True), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(scaled, 1 / (1 + np.exp(-x * s)), rtol=1e-5, atol=1e-6)
