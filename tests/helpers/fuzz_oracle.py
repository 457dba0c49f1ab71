"""
What a random graph must compute, and how exactly: the graph interpreter in f64, and runs of it in which each op is off
by as much as its tolerance allows. What these runs do not agree on (a step, a tie, a cancellation) is not compared.
"""

import json
import math
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from guarded import guarded_runs
from random_graphs import Case, floating, graph_of

import mlc
from mlc.dialects import graph as g
from mlc.dialects.graph.base import INJECTIVE
from mlc.dialects.graph.graph_numpy import result_dtype
from mlc.dialects.graph.store import attach_store
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.frontends.common.model import Model
from mlc.interp.compare import epsilon
from mlc.interp.graph import Interpreter
from mlc.support.arithmetic import WIDE
from mlc.support.weights import WeightStore
from mlc.validation.isolated import isolated as run_isolated
from mlc.validation.reduction.reduce import Reducer
from mlc.validation.reduction.subject import Subject, name_of

ROUNDING = {"graph.add", "graph.subtract", "graph.multiply", "graph.bias_add", "graph.leaky_relu", "graph.cast"}
SLACK = 8.0
LIMIT = 60
"""Seconds of CPU time after which a computation has failed; ten times as many by the clock."""
FLOOR = 1e-9
"""What is smaller than this is rounding: series and sums that cancel are exact as far as their terms are."""
UNSTABLE = 0.02
"""An output that the noise moves by more than this part of its largest value is not compared."""


OPTIONAL = [
    "graph-canonicalize", "graph-eliminate-common-subexpr", "graph-eliminate-dead-code", "graph-fold-constant",
    "graph-simplify-inference", "graph-select-algorithm", "graph-combine-parallel-conv2d",
    "graph-combine-parallel-dense", "graph-combine-parallel-batch-matmul", "graph-fold-scale-axis",
    "graph-simplify-expr", "graph-merge-branches", "graph-flatten-atrous-conv", "graph-canonicalize-ops",
    "graph-canonicalize-cast", "graph-legalize", "graph-fast-math", "graph-convert-layout", "graph-alter-op-layout",
]  # fmt: skip
"""Passes that may run in any order, or not at all."""
ANY_ORDER = [*OPTIONAL, "graph-fold-empty"]
"""Passes that may run in any order."""


class Noisy(Interpreter):
    """The interpreter in f64, each result off by about its op's tolerance in f32."""

    def __init__(self, weights, seed: int, growth: float = 1.0):
        super().__init__(weights, WIDE)
        self.rng = np.random.default_rng(seed)
        self.growth = growth

    def _run_op(self, op, operands):
        results = super()._run_op(op, operands)
        if not isinstance(op, g.GraphOp) or op.kind == INJECTIVE or (not op.tolerance and op.name not in ROUNDING):
            return results
        rtol = self.growth * max(op.tolerance, 1.0) * coarsest(op) * math.sqrt(op.reduction_length())
        return [self.moved(array, operands, rtol) for array in results]

    def moved(self, array, operands, rtol):
        array = np.asarray(array)
        if array.dtype.kind != "f" or array.size == 0:
            return array
        same = [a for a in operands if getattr(a, "dtype", None) is not None and a.dtype.kind == "f" and a.size]
        largest = max(float(np.abs(a).max()) for a in (array, *same))
        own = float(np.abs(array).max())
        scale = min(largest, 8 * own) if own else 0.0
        return array + rtol * scale * self.rng.uniform(-1, 1, array.shape)


def coarsest(op) -> float:
    """The rounding error of the narrowest floating-point type that an op reads or makes; that of f32 at least."""
    types = [result_dtype(v.type) for v in (*op.operands, *op.results)]
    return max([epsilon(np.dtype(np.float32)), *(epsilon(dtype) for dtype in types if floating(dtype))])


@dataclass
class Expected:
    """The results of a case, and how far each may be off; None: not compared."""

    arrays: list
    allowed: list


def expect(case: Case, growth: float = 1.0, runs: int = 3) -> Expected:
    """What a case computes."""
    exact = Interpreter(case.store, WIDE).run(case.main, case.inputs)
    plain = Interpreter(case.store).run(case.main, case.inputs)
    others = [Noisy(case.store, seed, growth).run(case.main, case.inputs) for seed in range(runs)] + [plain]
    allowed = []
    for k, (a, p) in enumerate(zip(exact, plain, strict=True)):
        different = [run[k] for run in others]
        if not floating(p.dtype):
            allowed.append(0.0 if all(np.array_equal(a, b) for b in different) else None)
            continue
        largest = float(np.abs(a).max(initial=0.0))
        moved = max(float(np.abs(a - b).max(initial=0.0)) for b in different)
        fine = np.isfinite(a).all() and math.isfinite(moved) and moved <= UNSTABLE * largest + 1e-30
        allowed.append(SLACK * (moved + epsilon(p.dtype) * largest) + FLOOR if fine else None)
    return Expected(exact, allowed)


def difference(expected: Expected, got) -> str:
    """Where results differ by more than is allowed; empty if nowhere."""
    for k, (a, b, allowed) in enumerate(zip(expected.arrays, got, expected.allowed, strict=True)):
        b = np.asarray(b)
        if a.shape != b.shape:
            return f"output {k}: expected shape {a.shape}, but got {b.shape}"
        if allowed is None:
            continue
        with np.errstate(all="ignore"):
            wrong = ~(np.abs(a - b) <= allowed) if floating(b.dtype) else a != b
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"output {k} at {list(at)}: expected {a[at]}, but got {b[at]} (allowed {allowed:.3g})"
    return ""


@dataclass(frozen=True)
class Compiled:
    """A way to compute a case: compile it and run it."""

    level: int
    threads: int = 1
    disabled: tuple[str, ...] = ()
    target: str = "native"
    precision: str = "f32"
    guarded: bool = False
    """Whether operands lie beside memory that must not be touched (guarded.py)."""

    def __str__(self) -> str:
        words = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if k not in ("level", "disabled"))
        return f"mlc.compile(opt_level={self.level}, {words}), disabled={list(self.disabled)}"

    def problem(self, case: Case, expected: Expected) -> str:
        """What is wrong with the results; empty if nothing."""
        with mlc.PassContext(opt_level=self.level, disabled=self.disabled):
            exe = mlc.compile(
                Model(case.module, case.store), threads=self.threads, target=self.target, precision=self.precision
            )
        given = {spec.name: array for spec, array in zip(exe.inputs, case.inputs, strict=True)}
        if self.guarded:
            found = ((difference(expected, results), how) for how, results in guarded_runs(exe, given))
            return next((f"{problem} ({how})" for problem, how in found if problem), "")
        results = list(exe(given).values())
        for _ in range(2):  # what is written out of place is noticed by the allocator, sooner or later
            exe(given)
        return difference(expected, results)


@dataclass(frozen=True)
class Passed:
    """A way to compute a case: run passes over it, then the interpreter."""

    passes: tuple[str, ...]

    def __str__(self) -> str:
        return f"mlc-opt -p {','.join(self.passes)}"

    def problem(self, case: Case, expected: Expected) -> str:
        """What is wrong with the results; empty if nothing."""
        work = case.copy()
        attach_store(work.module, work.store)
        run_passes(work.module, make_context(), self.passes, verify=True)
        return difference(expected, Interpreter(work.store).run(work.main, work.inputs))

    def culprit(self, case: Case, expected: Expected) -> str:
        """The first pass after which the results are wrong."""
        passes = [one for spec in self.passes for one in parse_pipeline(spec)]
        for count in range(1, len(passes) + 1):
            work = case.copy()
            attach_store(work.module, work.store)
            try:
                run_passes(work.module, make_context(), passes[:count], verify=True)
                wrong = difference(expected, Interpreter(work.store).run(work.main, work.inputs))
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                return f"after {passes[count - 1].name}: {wrong}"
        return ""


def growth_of(way) -> float:
    """How much larger than their own tolerance the errors of ops may be: passes approximate, and algorithms differ."""
    text = " ".join(getattr(way, "passes", ()))
    level = getattr(way, "level", 4 if "graph-O4" in text or "fast-math" in text else 3 if text else 0)
    rounding = {"bf16": 2.0**15, "f16": 2.0**12}.get(getattr(way, "precision", "f32"), 1.0)
    return {4: 64.0, 3: 16.0}.get(level, 4.0) * rounding


def check(case: Case, way) -> None:
    """AssertionError if a way does not compute what the case means; the reduced case is saved then."""
    growth = growth_of(way)
    try:
        problem = failure(case, way, growth)
    except UnstableCase:
        return
    if problem:
        reduced = reduced_case(case, way, growth)
        raise AssertionError(f"{way}: {problem}\nreproducer: {save(reduced, way, problem)}")


def warm() -> None:
    """Compile something small, so that the children find everything imported."""
    for level in (0, 4):
        Compiled(level).problem(case := graph_of(1, 2, 3), expect(case))
    Passed(tuple(OPTIONAL)).problem(case, expect(case))


class UnstableCase(Exception):
    """Nothing of a case can be compared."""


def failure(case: Case, way, growth: float = 1.0) -> str:
    """What is wrong when a case is computed in some way; an exception is wrong, too."""
    expected = expect(case, growth)
    if all(a is None for a in expected.allowed):
        raise UnstableCase
    return isolated(lambda: way.problem(case, expected))


def isolated(run) -> str:
    """What `run` returns, or its exception; it runs in a child process, for wrong code may corrupt the memory."""

    def text() -> str:
        try:
            return run()
        except BaseException as error:
            return f"{type(error).__name__}: {str(error)[:400]}"

    outcome = run_isolated(text, LIMIT)
    return outcome.value or "" if not outcome.died else f"the process died: {described(outcome.died)}"


def described(died: str) -> str:
    """A signal in words."""
    return signal.strsignal(signal.Signals[died]) if died.startswith("SIG") else died


def kind_of(problem: str) -> str:
    """What stays the same while a case is reduced: the class of the exception, or that values differ."""
    return problem.partition(":")[0] if not problem.startswith("output") else "output"


def reduced_case(case: Case, way, growth: float, seconds: float = 120.0) -> Case:
    """A smaller case that fails in the same manner."""
    wanted = kind_of(failure(case, way, growth))

    def is_interesting(subject: Subject) -> bool:
        try:
            return kind_of(failure(case_of(subject), way, growth)) == wanted
        except Exception:  # a smaller case may be nonsense: it is not taken
            return False

    subject = Subject(case.module.clone(), case.copy().store, list(case.inputs), name_of(case.main))
    return case_of(Reducer(make_context(), is_interesting, seconds).reduce(subject))


def case_of(subject: Subject) -> Case:
    """The case that a subject of reduction is."""
    return Case(subject.module, subject.used_weights() or WeightStore(), subject.inputs)


def save(case: Case, way, problem: str) -> Path:
    """Write a case into a new directory: model.mlir, its weights, the inputs, and what was wrong."""
    root = Path(os.environ.get("MLC_FUZZ_DIR") or tempfile.gettempdir()) / "mlc-fuzz"
    root.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="case.", dir=root))
    Model(case.module, case.store).save(directory / "model.mlir")
    words = []
    for index, array in enumerate(case.inputs):
        np.save(directory / f"input{index}.npy", array)
        words.append(f"--input input{index}=input{index}.npy")
    level = getattr(way, "level", 3)
    lines = [str(way), problem, f"mlc run model.mlir -O{level} --output-dir out {' '.join(words)}"]
    (directory / "problem.txt").write_text("\n".join(lines) + "\n")
    (directory / "way.json").write_text(json.dumps({"kind": type(way).__name__, **vars(way)}))
    return directory


def load(directory) -> tuple[Case, object]:
    """A saved case, and how it was computed."""
    model = mlc.load(Path(directory) / "model.mlir")
    types = model.main.function_type.inputs.data
    arrays = [np.load(Path(directory) / f"input{k}.npy") for k in range(len(types))]
    # .npy knows bfloat16 as two bytes only
    inputs = [a.view(result_dtype(t)) if a.dtype.kind == "V" else a for a, t in zip(arrays, types, strict=True)]
    record = json.loads((Path(directory) / "way.json").read_text())
    kind = {"Compiled": Compiled, "Passed": Passed}[record.pop("kind")]
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    return Case(model.module, model.weights if model.weights is not None else WeightStore(), inputs), kind(**lists)


__all__ = ["Compiled", "Expected", "Passed", "check", "expect", "failure", "load", "reduced_case"]
