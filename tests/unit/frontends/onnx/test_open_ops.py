"""Each ONNX op with all axes of its inputs open: compiled once, its values at three sizes beside onnxruntime's."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import open_ops
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_sizes import model_of as plain
from onnx_sizes import node
from open_ops import SIZES, Open, case, model_of

import mlc
from mlc.frontends.onnx.table import converters
from mlc.support.errors import UserError

GROUPS = {
    "elementwise": open_ops.ELEMENTWISE,
    "movement": open_ops.MOVEMENT,
    "pictures": [c for c in open_ops.PICTURES if c.kind not in open_ops.HEAVY],
    "heavy": [c for c in open_ops.PICTURES if c.kind in open_ops.HEAVY],
    "microsoft": open_ops.MICROSOFT,
    **{f"opset-{n}": [c for c in open_ops.NEWER if c.opset == n] for n in (21, 23, 24, 26)},
}
PAGE = Path(__file__).parents[4] / "docs" / "symbolic-shapes.md"

REFUSED = {
    "ConvTranspose": (
        [case("ConvTranspose", "N,2,M,M", open_ops.floats(2, 3, 3, 3), output_shape=[20, 20])],
        "expected sizes that compare whatever they are",
    ),
    "Det": ([case("Det", "N,M,M")], "expected a size that is known, but got M0"),
    "DFT": ([case("DFT", "N,M,M")], "expected a last axis of 1 or 2"),
    "Dropout": (
        [case("Dropout", "N,M", np.array(0.5, np.float32), np.array(True), seed=3)],
        "expected a seed and a known shape",
    ),
    "GatherND": ([case("GatherND", "N,M", Open("N,M", "i"))], "expected a known number of axes that the indices name"),
    "MaxPool": (
        [case("MaxPool", "N,2,M,M", kernel_shape=[2, 2], strides=[3, 3], pads=[1] * 4, ceil_mode=1, outputs=2)],
        "expected a known size of axis 2 with ceil_mode",
    ),
    "Resize": (
        [case("Resize", "N,2,M,M", None, np.array([1, 1, 0.7, 0.7], np.float32), mode="linear", antialias=1)],
        "expected known sizes with antialias",
    ),
    "SplitToSequence": ([case("SplitToSequence", "N,M")], "expected a size that is known"),
    "TfIdfVectorizer": (
        [
            case(
                "TfIdfVectorizer", Open("N,M", "w"), mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0,
                ngram_counts=[0, 0], ngram_indexes=[0, 1], pool_int64s=[2, 3, 4, 1],
            )
        ],
        "expected sizes that compare whatever they are",
    ),
}  # fmt: skip
"""Of each op what is refused where axes are open, and how the message begins."""

ELSEWHERE = set(
    "Constant If Loop Scan Optional OptionalGetElement OptionalHasElement ConcatFromSequence SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength MelWeightMatrix Scatter "
    "SimplifiedLayerNormalization Upsample".split()
)
"""Ops that take no open axes, or are other names of ops: tests of control flow, sequences and opsets have them."""


def reference(model):
    """What runs a model in another runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(onnx.shape_inference.infer_shapes(model).SerializeToString(), options)
    except Exception:  # an op that onnxruntime has not
        session = ReferenceEvaluator(model)
    return session.run


@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "heavy")) for name, cases in GROUPS.items() if cases],
)
def test_values_at_three_sizes(group):
    cases = list(enumerate(GROUPS[group]))
    exe = mlc.compile(model_of(cases), threads=1, cache=False)
    names = [spec.name for spec in exe.inputs]
    for sizes in SIZES:
        arrays = [array for _, one in cases for array in one.arrays(sizes)]
        found = iter(exe(dict(zip(names, arrays, strict=True))).values())
        for index, one in cases:
            model = model_of([(index, one)])
            given = {info.name: a for info, a in zip(model.graph.input, one.arrays(sizes), strict=True)}
            for wanted in reference(model)(None, given):
                compare(f"{one.kind} {one.attrs} at {sizes}", next(found), np.asarray(wanted))


def compare(what, found, wanted):
    """Within 1e-4 of the greatest magnitude; integers exactly."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), what
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted, err_msg=what)
        return
    largest = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * largest, err_msg=what)


def test_every_op_is_here():
    compiled = {one.kind for cases in GROUPS.values() for one in cases}
    missing = {name for domain, name in converters() if not domain} - compiled - REFUSED.keys() - ELSEWHERE
    assert not missing


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    cases, message = REFUSED[name]
    with pytest.raises(UserError, match=re.escape(message)):
        mlc.load(model_of(list(enumerate(cases))))
    assert f"`{name}`" in PAGE.read_text().partition("## What is refused")[2], "the page lists what is refused"


def test_pads_that_are_sizes():
    """Two texts of different lengths, padded to the longer one's."""
    nodes = [
        node("Shape", ["x"], "n"),
        node("Shape", ["w"], "m"),
        node("Max", ["n", "m"], "longest"),
        node("Sub", ["longest", "n"], "more"),
        node("Concat", ["none", "more"], "pads", axis=0),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    none = helper.make_tensor("none", onnx.TensorProto.INT64, [1], [0])
    exe = mlc.compile(plain(nodes, {"x": ["N"], "w": ["M"]}, [none]), threads=1, cache=False)
    for n, m in ((3, 8), (8, 3), (5, 5)):
        x = np.arange(1, n + 1, dtype=np.float32)
        np.testing.assert_array_equal(exe({"x": x, "w": np.ones(m, np.float32)})["y"], np.pad(x, (0, max(0, m - n))))
