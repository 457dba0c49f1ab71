"""
The names that ONNX, PyTorch, TVM, numpy, StableHLO, linalg and arith give to what graph ops compute.

A name is compared without its dialect, underscores and upper case: `linalg.batch_matmul`, `BatchMatMul`,
`aten.matmul` and `arith.addf` are found as "batchmatmul", "matmul" and "addf".
"""

from __future__ import annotations

from collections.abc import Iterable

from mlc.support.errors import did_you_mean

OTHER_NAMES: dict[str, str] = {
    "dense": "linear gemm addmm fullyconnected innerproduct",
    "batch_matmul dense": "matmul mm dot dotgeneral",
    "batch_matmul": "bmm baddbmm",
    "conv2d": "conv convolution conv2dnchwfchw conv2dnhwchwcf conv1d depthwiseconv2d",
    "conv2d_transpose": "convtranspose convtranspose2d deconv deconvolution",
    "max_pool2d": "maxpool globalmaxpool poolingnchwmax adaptivemaxpool2d",
    "avg_pool2d": "avgpool averagepool globalaveragepool globalavgpool adaptiveavgpool2d",
    "batch_norm": "batchnormalization",
    "layer_norm": "layernormalization",
    "instance_norm": "instancenormalization",
    "resize2d": "resize upsample interpolate",
    "add": "addf addi plus",
    "subtract": "sub subf subi minus",
    "multiply": "mul mulf muli times",
    "divide": "div divf divsi divui truediv",
    "power": "pow powf powi",
    "mod": "remainder remf remsi fmod",
    "maximum": "maximumf maxnumf maxsi maxui",
    "minimum": "minimumf minnumf minsi minui",
    "neg": "negf negate negative",
    "abs": "absf absi absolute",
    "sign": "signum",
    "round": "roundeven rint",
    "identity": "copy dropout noop",
    "where": "select",
    "clip": "clamp clamptensor relu6 hardtanh",
    "relu": "rectifiedlinear",
    "silu": "swish",
    "hard_swish": "hswish",
    "hard_sigmoid": "hsigmoid",
    "sigmoid": "logistic",
    "greater": "gt",
    "greater_equal": "ge greaterorequal",
    "less": "lt",
    "less_equal": "le lessorequal",
    "equal": "eq",
    "logical_and": "and andi",
    "logical_or": "or ori",
    "logical_xor": "xor xori",
    "logical_not": "not",
    "sum": "reducesum",
    "mean": "reducemean average",
    "max": "reducemax amax",
    "min": "reducemin amin",
    "prod": "reduceprod product",
    "argmax": "argmaximum",
    "argsort": "topk sort",
    "cumulative": "cumsum cumprod",
    "reshape": "view flatten squeeze unsqueeze expanddims expandshape collapseshape",
    "transpose": "permute permutedims",
    "broadcast_to": "expand broadcast broadcastindim",
    "concatenate": "concat cat stack",
    "slice": "narrow stridedslice extractslice",
    "split": "chunk unbind",
    "take": "gather embedding indexselect",
    "gather_rows": "gathernd",
    "scatter_nd": "scatter",
    "flip": "reverse",
    "tile": "repeat",
    "iota": "range arange indextensor",
    "full": "fill constantofshape zeros ones zeroslike oneslike splat",
    "constant": "const",
    "param": "weight initializer variable",
    "cast": "convert astype to extf truncf sitofp fptosi uitofp fptoui extsi trunci",
    "quantize": "quantizelinear",
    "dequantize": "dequantizelinear",
    "lookup": "table",
}
"""Graph ops, without `graph.` -> other names of what they compute."""


def plain(name: str) -> str:
    """`linalg.batch_matmul -> batchmatmul`."""
    return name.rpartition(".")[2].replace("_", "").lower()


_BY_NAME = {other: ops.split() for ops, others in OTHER_NAMES.items() for other in others.split()}


def counterparts(name: str, known: Iterable[str]) -> list[str]:
    """The graph ops that compute what an op of this name does elsewhere; `known` are full names."""
    ops = [op for op in known if op.startswith("graph.")]
    same = [op for op in ops if plain(op) == plain(name)]
    return same or [f"graph.{op}" for op in _BY_NAME.get(plain(name), ()) if f"graph.{op}" in ops]


def did_you_mean_op(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'graph.batch_matmul' or 'graph.dense'?`: by meaning, else by spelling."""
    known = list(known)
    dialect = name.partition(".")[0]
    if dialect not in ("te", "sched", "loop", "llvm", "runtime") and (found := counterparts(name, known)):
        return f"; did you mean {' or '.join(repr(op) for op in found)}?"
    return did_you_mean(name, known, cutoff=0.8)
