"""
The pipelines that the compiler uses, by name.

`mlc-opt --show-pipeline=NAME` prints one, and a name stands for its passes in any pipeline text.
"""

from mlc.passes.errors import UserError, did_you_mean

# Name -> pass specs in pipeline syntax (`loop-split{factor=4}`), or names of other pipelines.
PIPELINES: dict[str, list[str]] = {
    # a model to kernels and the calls of them
    "graph-O0": ["graph-outline-kernels"],
    "graph-O1": [
        "graph-simplify",
        "graph-fold-constant",
        "graph-fuse-ops{mode=tvm}",
        "graph-outline-kernels",
    ],
    "graph-O2": [
        "graph-simplify",
        "graph-fold-constant",
        "graph-canonicalize",
        "graph-eliminate-common-subexpr",
        "graph-fuse-ops",
        "graph-outline-kernels",
    ],
    "graph-O3": [
        "graph-simplify",
        "graph-convert-layout{desired=conv2d:NCHW:OIHW}",
        "graph-to-mixed-precision",
        "graph-alter-op-layout",
        "graph-select-algorithm",
        "graph-fold-constant",
        "graph-canonicalize",
        "graph-eliminate-common-subexpr",
        "graph-fuse-ops",
        "graph-outline-kernels",
    ],
    "graph-simplify": [
        "graph-canonicalize",
        "graph-fold-constant",
        "graph-simplify-inference",
        "graph-canonicalize",
    ],
    # a scheduled te.func to tiles, and on to machine code
    "loop-tiles": [
        "loop-partition",
        "loop-inline-unit-loops",
        "loop-form-tiles",
        "loop-compact-buffers",
        "loop-promote-tiles",
    ],
    "kernel-O3": [
        "te-inline",
        "te-add-schedule",
        "convert-te-to-loop",
        "loop-apply-schedule",
        "loop-tiles",
        "convert-loop-to-llvm",
    ],
}
# what the compiler runs at an optimisation level, from the graph to machine code
PIPELINES |= {f"O{n}": [f"graph-O{n}", "convert-graph-to-te", "kernel-O3"] for n in range(4)}

SHIPPED = {name: tuple(specs) for name, specs in PIPELINES.items()}
"""PIPELINES as they came: a program that changes one compiles something else (the caches must tell)."""


def pipeline(name: str) -> list[str]:
    """The pass specs of a named pipeline, as they are written in PIPELINES."""
    if name not in PIPELINES:
        raise UserError(f"unknown pipeline '{name}'{did_you_mean(name, PIPELINES)}")
    return PIPELINES[name]
