"""
The pipelines that the compiler uses, by name.

`mlc-opt --show-pipeline=NAME` prints one, and a name stands for its passes in any pipeline text.
"""

from mlc.support.errors import UserError, did_you_mean

# A model to kernels and the calls of them: each pass or pipeline in its place, with the optimisation level from which
# it runs and, where another one takes over, the last level at which it does.
GRAPH: list[tuple[str, int] | tuple[str, int, int]] = [
    ("graph-inline", 1),
    ("graph-remove-unused-functions", 1),
    ("graph-fold-empty", 0),
    ("graph-simplify-qdq", 1),
    ("graph-dynamic-to-static", 1),
    ("graph-legalize", 1),
    ("graph-simplify", 1),
    ("graph-combine-parallel-conv2d", 4),
    ("graph-combine-parallel-dense", 4),
    ("graph-combine-parallel-batch-matmul", 4),
    ("graph-fold-scale-axis", 3),
    ("graph-simplify-expr", 1),
    ("graph-flatten-atrous-conv", 1),
    ("graph-convert-layout{desired=conv2d:NCHW:OIHW}", 3),
    ("graph-to-mixed-precision", 3),
    ("graph-alter-op-layout", 3),
    ("graph-select-algorithm", 3),
    ("graph-fast-math", 4),
    ("graph-fold-constant", 1),
    ("graph-canonicalize", 2),
    ("graph-eliminate-common-subexpr", 2),
    ("graph-canonicalize-ops", 3),
    ("graph-canonicalize-cast", 3),
    ("graph-split-args", 1),
    ("graph-fuse-ops{mode=tvm}", 1, 1),
    ("graph-fuse-ops", 2),
    ("graph-collapse-dims", 2),
    ("graph-outline-kernels", 0),
    ("graph-label-ops", 1),
]
MAX_LEVEL = 4

# Name -> pass specs in pipeline syntax (`loop-split{factor=4}`), or names of other pipelines.
PIPELINES: dict[str, list[str]] = {
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
        "te-factor-reductions",
        "te-inline",
        "te-add-schedule",
        "convert-te-to-loop",
        "loop-apply-schedule",
        "loop-tiles",
        "convert-loop-to-llvm",
    ],
}
# what the compiler runs at an optimisation level, from the graph to machine code
for _n in range(MAX_LEVEL + 1):
    PIPELINES[f"graph-O{_n}"] = [e[0] for e in GRAPH if e[1] <= _n <= (e[2] if len(e) > 2 else MAX_LEVEL)]
    PIPELINES[f"O{_n}"] = [f"graph-O{_n}", "convert-graph-to-te", "kernel-O3"]

SHIPPED = {name: tuple(specs) for name, specs in PIPELINES.items()}
"""PIPELINES as they came: a program that changes one compiles something else (the caches must tell)."""


def pipeline(name: str) -> list[str]:
    """The pass specs of a named pipeline, as they are written in PIPELINES."""
    if name not in PIPELINES:
        raise UserError(f"unknown pipeline '{name}'{did_you_mean(name, PIPELINES)}")
    return PIPELINES[name]


def pass_names(name: str) -> list[str]:
    """The names of the passes that a pipeline runs; a pass stands for itself."""
    bare = name.partition("{")[0]
    return [one for spec in PIPELINES[bare] for one in pass_names(spec)] if bare in PIPELINES else [bare]


def compiler_passes() -> list[str]:
    """The names of the passes that the compiler may run at some level, in order."""
    parts = [f"{part}-O{level}" for part in ("graph", "kernel") for level in range(MAX_LEVEL, -1, -1)]
    return list(dict.fromkeys(one for part in parts if part in PIPELINES for one in pass_names(part)))


def level_of(name: str) -> int:
    """The optimisation level from which the compiler runs a pass; 0 for one that the graph pipelines do not have."""
    return min((level for spec, level, *_ in GRAPH if name in pass_names(spec)), default=0)
