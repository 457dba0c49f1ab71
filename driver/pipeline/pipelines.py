"""
The compiler on one screen: every step from a model to a program, in order.

    mlc.load                  a Model: one module of graph ops and its weights            frontends/
    stage "graph"             the module's kernels are functions, @main calls them        passes/graph
    stage "main"              @main calls kernels on buffers of one planned workspace     lowering/graph_to_main
    check_plan                an independent check of the memory plan                     validation/plans/plan_check.py
    stage "kernel"            each kernel in a module of its own, in forked workers,      lowering, passes, schedules
                              down to the llvm dialect; then LLVM IR text and an object   codegen/
    stage "program"           @main in the llvm dialect, then an object                   lowering/main_to_llvm
    link, weights.bin         an artefact, which the runtime loads                        runtime/artifact.py

`driver/models/compilation.py` runs the stages in this order, `mlc.build` the stage "kernel" alone. A word such as
`$threads` is a setting of the compilation (`Options.settings`): where it reaches a pass is written here and nowhere
else. `mlc-opt --show-pipeline=NAME` prints a pipeline; where mlc-opt runs one, `--set threads=2` gives a setting, and
an option whose setting is not given keeps the pass's default.
"""

from typing import NamedTuple

from mlc.support.errors import UserError, did_you_mean

MAX_LEVEL = 4
"""The highest optimisation level."""


class CompilerStep(NamedTuple):
    """A pass, or a named pipeline, at its place; it runs at optimisation levels `since` to `until`."""

    stage: str
    spec: str
    since: int = 0
    until: int = MAX_LEVEL


_PLANNER = "planner=$memory-planner seed=$memory-seed"
_POOLS = "workspace-pools=$workspace-pools constant-pools=$constant-pools"

COMPILER: tuple[CompilerStep, ...] = (
    CompilerStep("graph", "graph-inline", 1),
    CompilerStep("graph", "graph-remove-unused-functions", 1),
    CompilerStep("graph", "graph-fold-empty"),
    CompilerStep("graph", "graph-simplify-qdq", 1),
    CompilerStep("graph", "graph-dynamic-to-static", 1),
    CompilerStep("graph", "graph-legalize{target=$target}", 1),
    CompilerStep("graph", "graph-simplify", 1),
    CompilerStep("graph", "graph-combine-parallel-conv2d{target=$target threads=$threads}", 4),
    CompilerStep("graph", "graph-combine-parallel-dense{target=$target threads=$threads}", 4),
    CompilerStep("graph", "graph-combine-parallel-batch-matmul{target=$target threads=$threads}", 4),
    CompilerStep("graph", "graph-fold-scale-axis", 3),
    CompilerStep("graph", "graph-simplify-expr", 1),
    CompilerStep("graph", "graph-merge-branches", 3),
    CompilerStep("graph", "graph-flatten-atrous-conv", 1),
    CompilerStep("graph", "graph-annotate{compiler=$compilers}"),
    CompilerStep("graph", "graph-merge-regions"),
    CompilerStep("graph", "graph-partition"),
    CompilerStep("graph", "graph-convert-layout{desired=conv2d:NCHW:OIHW}", 3),
    CompilerStep(
        "graph",
        "graph-to-mixed-precision{precision=$precision vector-bits=$vector-bits target=$target threads=$threads "
        "error-growth=$error-growth}",
        3,
    ),
    CompilerStep("graph", "graph-narrow-weights{target=$target}", 3),
    CompilerStep(
        "graph",
        "graph-alter-op-layout{vector-bits=$vector-bits target=$target threads=$threads winograd-error=$error-growth}",
        3,
    ),
    CompilerStep("graph", "graph-fast-math", 4),
    CompilerStep("graph", "graph-fold-constant", 1),
    CompilerStep("graph", "graph-canonicalize", 2),
    CompilerStep("graph", "graph-eliminate-common-subexpr", 2),
    CompilerStep("graph", "graph-canonicalize-ops", 3),
    CompilerStep("graph", "graph-canonicalize-cast", 3),
    CompilerStep("graph", "graph-split-args", 1),
    CompilerStep("graph", "graph-plan-devices{devices=$devices compilers=$device-compilers}"),
    CompilerStep("graph", "graph-annotate-memory-scope{scopes=$scopes}"),
    CompilerStep("graph", "graph-fuse-ops{mode=tvm}", 1, 1),
    CompilerStep("graph", "graph-fuse-ops", 2),
    CompilerStep("graph", "graph-lower-device-copies{scopes=$scopes}"),
    CompilerStep("graph", "graph-collapse-dims", 2),
    CompilerStep("graph", "graph-block-biases{target=$target}", 3),
    CompilerStep("graph", "graph-select-algorithm{error-growth=$error-growth target=$target threads=$threads}", 3),
    CompilerStep("graph", "graph-outline-kernels{parts=$parts}"),
    CompilerStep("graph", "graph-annotate-narrow-bytes{target=$target fixed=$parts}", 3),
    CompilerStep("graph", "graph-annotate-rows{threads=$threads}", 3),
    CompilerStep("graph", "graph-label-ops", 1),
    CompilerStep("graph", "graph-order-calls", 2),
    CompilerStep("main", f"convert-graph-to-main{{planner=$main-planner seed=$memory-seed {_POOLS}}}"),
    CompilerStep("kernel", "convert-graph-to-te"),
    CompilerStep("kernel", "te-factor-reductions"),
    CompilerStep("kernel", "te-inline"),
    CompilerStep("kernel", "te-clip-bands{target=$target}", 1),
    CompilerStep("kernel", "te-pad-queries{target=$target}", 1),
    CompilerStep("kernel", "te-read-records{target=$target threads=$threads}"),
    CompilerStep("kernel", "te-add-schedule{target=$target threads=$threads}"),
    CompilerStep("kernel", "convert-te-to-loop"),
    CompilerStep("kernel", "loop-apply-schedule"),
    CompilerStep("kernel", "loop-tiles"),
    CompilerStep("kernel", "loop-unroll{vector-bits=$vector-bits registers=$registers operations=$unroll}"),
    CompilerStep("kernel", f"loop-plan-memory{{{_PLANNER}}}"),
    CompilerStep("kernel", "convert-loop-to-llvm{vector-bits=$vector-bits instructions=$instructions}"),
    CompilerStep("program", "convert-main-to-llvm"),
)

PIPELINES: dict[str, list[str]] = {
    "graph-simplify": [
        "graph-canonicalize",
        "graph-fold-constant",
        "graph-simplify-inference",
        "graph-canonicalize",
    ],
    # a scheduled te.func to register tiles
    "loop-tiles": [
        "loop-partition",
        "loop-inline-unit-loops",
        "loop-form-tiles",
        "loop-compact-buffers",
        "loop-promote-tiles",
        "loop-start-sums",
        "loop-reuse-buffers",
    ],
    # a scheduled te.func to scalar loops, which are printed as C
    "loop-scalars": ["loop-scalarize", "loop-tiles"],
}
"""Name -> pass specs in pipeline syntax (`loop-split{factor=4}`), or names of other pipelines."""


def steps(stage: str, level: int) -> list[str]:
    """The specs of a stage at an optimisation level."""
    return [step.spec for step in COMPILER if step.stage == stage and step.since <= level <= step.until]


# graph-On and On: what runs at an optimisation level. The stage "kernel" is the same at every level; kernel-O3 begins
# behind the conversion, with te functions, since it also compiles those that a person wrote.
PIPELINES["kernel-O3"] = steps("kernel", 3)[1:]
PIPELINES["main"] = steps("main", 3)
PIPELINES["program"] = steps("program", 3)
for _n in range(MAX_LEVEL + 1):
    PIPELINES[f"graph-O{_n}"] = steps("graph", _n)
    PIPELINES[f"O{_n}"] = [f"graph-O{_n}", "convert-graph-to-te", "kernel-O3"]

SHIPPED = {name: tuple(specs) for name, specs in PIPELINES.items()}
"""PIPELINES as shipped: a program that changes one compiles differently, which cache keys must show."""


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
    """The names of the passes that may be named in a PassContext, in order."""
    parts = [f"{part}-O{level}" for part in ("graph", "kernel") for level in range(MAX_LEVEL, -1, -1)]
    return list(dict.fromkeys(one for part in parts if part in PIPELINES for one in pass_names(part)))
