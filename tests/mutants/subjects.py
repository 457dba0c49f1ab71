"""The models and kernels that are mutated: each is built anew, with its weights, its pipeline and its inputs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zoo
from deep_models import decoder, encoder
from loop_kernels import conv as loop_conv
from loop_kernels import gemm, layer_norm
from loop_kernels import softmax as loop_softmax
from random_graphs import graph_of
from sched_kernels import KERNELS as SCHEDULED
from small_graphs import Small, small_model
from strategy_cases import CASES
from symbolic_models import POINTWISE, PRODUCT, SOFTMAX
from test_precision import convolutions, transformer
from test_small_graphs import CASES as GROUPS
from xdsl.passes import ModulePass

import mlc
from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.options import settings_of
from mlc.driver.pipeline.manager import parse_pipeline
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore

OPEN = {"batch": (1, 4), "length": (1, 20)}
"""Ranges of open sizes that keep the runs of interpreters short."""
RANDOM_GRAPHS = range(6)
"""Seeds of the random graphs among the subjects."""
LEVELS = ("convert-graph-to-te", "kernel-O3")


@dataclass
class Built:
    """A model ready to be compiled: its module, its weights, and arrays for @main or for its one kernel."""

    module: Any
    weights: Any
    passes: list[ModulePass]
    arrays: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A model or a kernel; `small` ones are validated within a few seconds."""

    name: str
    build: Callable[[], Built]
    small: bool = False
    mutated: bool = True
    """Otherwise only its correct compilation is validated."""


def compiled(model: Model, level: int = 4, precision: str = "") -> Built:
    """A model with the pipeline of an optimisation level, down to machine code."""
    attach_store(model.module, model.weights)
    graph = f"graph-O{level}"
    passes = parsed([graph, *LEVELS])
    if precision:
        from mlc.passes.graph.precision.to_mixed_precision import ToMixedPrecisionPass

        passes = [
            ToMixedPrecisionPass(precision=precision) if isinstance(p, ToMixedPrecisionPass) else p for p in passes
        ]
    return Built(model.module, model.weights, passes)


def parsed(specs: Sequence[str]) -> list[ModulePass]:
    """The passes of a compilation for two threads."""
    return parse_pipeline(",".join(specs), settings_of(["threads=2"]))


def onnx_subject(proto: Callable[[], Any], level: int = 4, **options: Any) -> Callable[[], Built]:
    """An ONNX model."""
    return lambda: compiled(mlc.load(proto(), symbols=options.get("symbols")), level, options.get("precision", ""))


def small_proto(build: Callable[..., None], *arguments: int) -> Callable[[], Any]:
    """The ONNX model of a builder of small graphs."""

    def proto() -> Any:
        small = Small(case="net")
        build(small, *arguments)
        return small.proto()

    return proto


def text_subject(text: str, level: int = 4) -> Callable[[], Built]:
    """A graph as text, without weights."""
    return lambda: compiled(Model(parse_module(text, "<mutant>"), WeightStore()), level)


def kernel_subject(text: str, specs: Sequence[str]) -> Callable[[], Built]:
    """A kernel as te or loop text."""
    return lambda: Built(parse_module(text, "<mutant>"), None, parsed(specs))


def quantised(build: Callable[..., None]) -> Callable[[], Built]:
    """A small model quantised by calibration."""

    def made() -> Built:
        small = Small(case="net")
        build(small)
        model = mlc.quantize(mlc.load(small.proto()), small.arrays)
        return compiled(model)

    return made


def small_pictures(s: Small) -> None:
    """A quantisable network: a convolution, a residual, a pool, a classifier."""
    x = s.op("Relu", s.op("Conv", s.x(1, 3, 10, 8), s.w(24, 3, 3, 3), s.w(24), pads=[1] * 4))
    x = s.op("Add", s.op("Conv", x, s.w(24, 24, 1, 1)), x)
    x = s.op("Flatten", s.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    s.out(s.op("Gemm", x, s.w(480, 10), s.w(10)))


def mixture(s: Small) -> None:
    """Ops that the other models lack: masks, slices, splits, pads, gathers, resizes, pools, comparisons."""
    x = s.x(1, 8, 12, 12)
    a, b = s.op("Split", x, s.const([4, 4]), axis=1, count=2)
    a = s.op("AveragePool", a, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    b = s.op("Pad", b, s.const([0, 0, 1, 0, 0, 0, 0, 1]), s.const(0.5, np.float32))
    b = s.op("Slice", b, s.const([1, 0]), s.const([13, 12]), s.const([2, 3]))
    y = s.op("Concat", b, s.op("LeakyRelu", a, alpha=0.1), axis=1)
    y = s.op(
        "Where",
        s.op("Greater", y, s.const(0.3, np.float32)),
        y,
        s.op("Clip", x, s.const(-0.7, np.float32), s.const(0.4, np.float32)),
    )
    y = s.op("Conv", y, s.w(8, 8, 3, 3), s.w(8), pads=[2, 2, 2, 2], dilations=[2, 2])
    y = s.op("Sub", y, s.op("Mul", s.op("Sigmoid", y), s.const(0.37, np.float32)))
    z = s.op("Transpose", y, perm=[0, 1, 3, 2])
    z = s.op("Add", z, s.op("GlobalMaxPool", y))
    z = s.op("Gather", z, s.const([7, 0, 3, 2]), axis=1)
    z = s.op("InstanceNormalization", z, s.w(4, positive=True), s.w(4))
    z = s.op("Div", z, s.const(1.7, np.float32))
    s.out(s.op("Softmax", z, axis=-1))
    s.out(s.op("Resize", z, "", "", s.const([1, 4, 9, 17]), mode="linear", coordinate_transformation_mode="half_pixel"))


def residual(s: Small, blocks: int = 3, width: int = 16) -> None:
    """A small residual network with batch norms."""

    def conv(x: str, inputs: int, outputs: int, stride: int = 1) -> str:
        w = s.w(outputs, inputs, 3, 3)
        s.weights[w] *= (2 / (9 * inputs)) ** 0.5
        y = s.op("Conv", x, w, pads=[1] * 4, strides=[stride] * 2)
        return s.op(
            "BatchNormalization",
            y,
            s.w(outputs, positive=True),
            s.w(outputs),
            s.w(outputs),
            s.w(outputs, positive=True),
        )

    x = s.op("Relu", conv(s.x(1, 3, 17, 17), 3, width, 2))
    x = s.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    for _ in range(blocks):
        x = s.op("Relu", s.op("Add", conv(s.op("Relu", conv(x, width, width)), width, width), x))
    x = s.op("Flatten", s.op("GlobalAveragePool", x))
    s.out(s.op("Gemm", x, s.w(width, 10), s.w(10)))


def zoo_subject(name: str) -> Callable[[], Built]:
    """A model of the zoo at the size at which it is validated."""

    def made() -> Built:
        return compiled(mlc.load(zoo.model(name, zoo.MODELS[name].small)), 3)

    return made


def random_subject(seed: int) -> Callable[[], Built]:
    """A random graph, drawn from the samples of the ops."""

    def made() -> Built:
        case = graph_of(seed, 4, 14)
        return compiled(Model(case.module, case.store))

    return made


def group_subject(name: str) -> Callable[[], Built]:
    """A group of operators at awkward sizes, each with an output of its own."""
    return lambda: compiled(mlc.load(small_model(GROUPS[name].items()).proto()), 3)


TILED = {
    "gemm": gemm(20, 70, 24),
    "convolution": loop_conv(16, 32, 9),
    "softmax": loop_softmax(9, 40),
    "layer norm": layer_norm(6, 35),
}
"""Kernels that are scheduled already, with parallel loops."""


def hyphened(name: str) -> str:
    """A name of one word."""
    return re.sub("[^a-z0-9]+", "-", name)


SUBJECTS: dict[str, Subject] = {
    one.name: one
    for one in (
        Subject("encoder", onnx_subject(lambda: encoder(3), symbols=OPEN)),
        Subject("encoder1", onnx_subject(lambda: encoder(1), symbols=OPEN), True),
        Subject("decoder", onnx_subject(lambda: decoder(2), symbols={"batch": (1, 4), "past": (1, 20)})),
        Subject("transformer", onnx_subject(small_proto(transformer)), True),
        Subject("convolutions", onnx_subject(small_proto(convolutions))),
        Subject("residual", onnx_subject(small_proto(residual)), True),
        Subject("residual-deep", onnx_subject(small_proto(residual, 8), 3)),
        Subject("mixture", onnx_subject(small_proto(mixture)), True),
        Subject("mixture-O2", onnx_subject(small_proto(mixture), 2), True),
        Subject("bf16", onnx_subject(small_proto(convolutions, 16), precision="bf16")),
        Subject("f16", onnx_subject(small_proto(transformer), precision="f16")),
        Subject("quantised", quantised(small_pictures), True),
        Subject("squeezenet", zoo_subject("squeezenet")),
        Subject("open-pointwise", text_subject(POINTWISE), True),
        Subject("open-softmax", text_subject(SOFTMAX), True),
        Subject("open-product", text_subject(PRODUCT), True),
        *(Subject(f"random-{seed}", random_subject(seed), True) for seed in RANDOM_GRAPHS),
        *(Subject(name, zoo_subject(name), mutated=False) for name in zoo.MODELS if name != "squeezenet"),
        *(Subject(hyphened(f"group-{name}"), group_subject(name), mutated=False) for name in GROUPS),
        *(
            Subject(f"{name}-O{level}", onnx_subject(small_proto(build), level), mutated=False)
            for name, build in (("transformer", transformer), ("residual", residual), ("mixture", mixture))
            for level in (0, 1, 3)
        ),
        *(Subject(hyphened(f"te-{name}"), kernel_subject(text, ["kernel-O3"]), True) for name, text in CASES.items()),
        *(
            Subject(hyphened(f"loop-{name}"), kernel_subject(text, ["loop-tiles", "convert-loop-to-llvm"]), True)
            for name, text in (SCHEDULED | TILED).items()
        ),
    )
}
