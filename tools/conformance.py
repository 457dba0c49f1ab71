"""
The ONNX backend tests against mlc, compiled: `python -m mlc.tools.conformance`, `make conformance`.

Tests run in worker processes; one during which its process dies has failed. The page lists for each op how many of its
tests passed, failed, or were left out, and why.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx

from mlc.frontends.onnx.structured import tensor_type

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from onnx.backend.test.case.test_case import TestCase

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
TIMEOUT_SECONDS = 300.0
"""The time limit of one test."""

NARROW_TYPES = re.compile("FLOAT8|FLOAT4|U?INT4|U?INT2")
RANDOM_OPS = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}

_NOISE = "what is expected is 2e-7, the rounding noise of numpy's FFT in f32, where the exact result is 0"
EXPLANATIONS = {"test_dft_inverse": _NOISE, "test_dft_inverse_opset19": _NOISE}
"""Reasons of failing tests, in the place of their messages."""


@dataclass(frozen=True)
class Outcome:
    """The result of one test: `status` is passed, failed or skipped."""

    name: str
    kind: str
    op: str
    status: str
    reason: str = ""
    seconds: float = 0.0


def load_cases(kinds: Iterable[str] = KINDS) -> list[TestCase]:
    """The test cases of these kinds."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for kind in kinds if kind != "light" for case in load_model_tests(kind=kind)]
    return cases + (light_cases() if "light" in kinds else [])


def light_cases() -> list[TestCase]:
    """The CNNs without weights that ONNX ships, on the runner's dummy input."""
    from onnx.backend.test.case.test_case import TestCase
    from onnx.backend.test.runner import Runner

    directory = Path(onnx.__file__).parent / "backend/test/data/light"
    cases: list[TestCase] = []
    for path in sorted(directory.glob("*.onnx")):
        model = onnx.load(path)  # pyright: ignore[reportUnknownMemberType] onnx annotates a bare PathLike
        constant = {tensor.name for tensor in model.graph.initializer}
        infos = [info for info in model.graph.input if info.name not in constant]
        inputs = [Runner.generate_dummy_data(info, name=path.stem) for info in infos]
        outputs = [_tensor(path.with_name(f"{path.stem}_output_{i}.pb")) for i in range(1)]
        data: Any = [(inputs, outputs)]
        cases.append(TestCase(f"test_{path.stem}", path.stem, "", "", model, data, "light", 1e-3, 1e-7))
    return cases


def _tensor(path: Path) -> onnx.TensorProto:
    return onnx.load_tensor(str(path))  # pyright: ignore[reportUnknownMemberType] onnx annotates a bare PathLike


def model_of(case: TestCase) -> onnx.ModelProto:
    """The model of a case."""
    if case.model is not None:
        return case.model
    return onnx.load(_directory(case) / "model.onnx")  # pyright: ignore[reportUnknownMemberType] onnx annotates a bare PathLike


def _directory(case: TestCase) -> Path:
    """The files of a case whose model and data are not in memory."""
    assert case.model_dir is not None
    return Path(case.model_dir)


def data_of(case: TestCase) -> Iterator[tuple[list[Any], list[Any]]]:
    """The inputs and the expected outputs of a case."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(v) for v in inputs], [_array(v) for v in outputs]
        return
    for directory in sorted(_directory(case).glob("test_data_set*")):
        counts = [len(list(directory.glob(f"{what}_*.pb"))) for what in ("input", "output")]
        inputs, outputs = (
            [_array(_tensor(directory / f"{what}_{i}.pb")) for i in range(count)]
            for what, count in zip(("input", "output"), counts, strict=True)
        )
        yield inputs, outputs


def _array(value: onnx.TensorProto | ArrayLike) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _tensors(value: object) -> list[Any]:
    """The tensors of a tensor, a sequence or an optional: the runner compares those of lists row by row."""
    if value is None:
        return []
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


def out_of_scope(model: onnx.ModelProto) -> str:
    """The reason why a test is left out; empty for one that runs."""
    nodes = list(model.graph.node)
    domains = {node.domain for node in nodes} | {opset.domain for opset in model.opset_import}
    if any("training" in domain or "preview" in domain for domain in domains):
        return "preview and training ops"
    if any(node.domain == "ai.onnx.ml" for node in nodes):
        return "the domain ai.onnx.ml"
    if any(node.op_type in RANDOM_OPS for node in nodes):
        return "random ops"
    if any(node.op_type == "ImageDecoder" for node in nodes):
        return "ImageDecoder"
    elements = _types(model)
    if "STRING" in elements:
        return "strings"
    if any(NARROW_TYPES.fullmatch(re.sub("E.*", "", name)) for name in elements):
        return "elements narrower than 8 bits, and 8-bit floats"
    return ""


def _types(model: onnx.ModelProto) -> set[str]:
    """The element types of a model's inputs, outputs and tensors."""
    elements: set[int] = set()
    for info in (*model.graph.input, *model.graph.output):
        element = tensor_type(info.type)[2]
        elements.add(0 if element is None else element.tensor_type.elem_type)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                elements.add(attribute.t.data_type)
            if node.op_type in ("Cast", "QuantizeLinear") and attribute.name in ("to", "output_dtype"):
                elements.add(attribute.i)
    return {onnx.TensorProto.DataType.Name(element) for element in elements}


def op_of(case: TestCase, model: onnx.ModelProto) -> str:
    """The op that a test is about."""
    if case.kind != "node":
        return f"({case.kind})"
    names = {name.lower(): name for name in _op_names()}
    if len(model.graph.node) == 1:
        return model.graph.node[0].op_type
    words = case.name.removeprefix("test_").split("_")
    prefixes = ["".join(words[:count]) for count in range(len(words), 0, -1)]
    return next((names[p] for p in prefixes if p in names), model.graph.node[-1].op_type)


def _op_names() -> set[str]:
    return {schema.name for schema in onnx.defs.get_all_schemas()}


def run_case(case: TestCase) -> Outcome:
    """Compile and run one test, and compare what it gives."""
    from onnx.backend.test.runner import Runner

    from mlc.tools.onnx_backend import prepare

    model = model_of(case)
    op = op_of(case, model)
    if why := out_of_scope(model):
        return Outcome(case.name, case.kind, op, "skipped", why)
    start = time.perf_counter()
    try:
        prepared = prepare(model)
        for inputs, outputs in data_of(case):
            results = list(prepared.run(inputs))
            if len(outputs) != len(results):
                raise AssertionError(f"expected {len(outputs)} outputs, but got {len(results)}")
            for wanted, result in zip(outputs, results, strict=True):
                wanted, result = _tensors(wanted), _tensors(result)
                Runner.assert_similar_outputs(wanted, result, case.rtol, case.atol)
        status, reason = "passed", ""
    except Exception as error:
        status, reason = "failed", EXPLANATIONS.get(case.name) or _reason(error)
    return Outcome(case.name, case.kind, op, status, reason, round(time.perf_counter() - start, 2))


def _reason(error: Exception) -> str:
    """One line about what went wrong."""
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError):
        return "wrong values: " + text.replace("=", "")[:160]
    text = re.sub(r"^\S+: ", "", text)
    if os.environ.get("CONFORMANCE_TRACE"):
        text += "".join(traceback.format_exc())
        return f"{type(error).__name__}: {text}"
    return f"{type(error).__name__}: {text[:300]}"


def _work(cases: Sequence[TestCase], cpu: int, pipe: Connection) -> None:
    """A worker: runs the tests whose indices it is sent, on one CPU."""
    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, {cpu})
    while (index := cast("int", pipe.recv())) >= 0:
        pipe.send(run_case(cases[index]))


class _Worker:
    """A worker process and the test that it is running."""

    def __init__(self, cases: Sequence[TestCase], cpu: int):
        self.cases, self.cpu = cases, cpu
        self.index, self.since = -1, 0.0
        self.start()

    def start(self) -> None:
        """Fork a process."""
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(self.cases, self.cpu, other), daemon=True)
        self.process.start()
        other.close()

    def give(self, index: int) -> None:
        """Send the next test."""
        self.index, self.since = index, time.monotonic()
        self.pipe.send(index)

    def take(self) -> Outcome:
        """The outcome of the test, also where the process died."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            return self.ended("the process died")

    def ended(self, why: str) -> Outcome:
        """End the process; the outcome of its test."""
        self.process.kill()
        self.process.join()
        case = self.cases[self.index]
        outcome = Outcome(case.name, case.kind, op_of(case, model_of(case)), "failed", why)
        self.start()
        return outcome


def run_cases(cases: Sequence[TestCase], jobs: int = 2, quiet: bool = False) -> list[Outcome]:
    """The outcomes of all tests."""
    cpus = sorted(os.sched_getaffinity(0))
    workers = [_Worker(cases, cpus[k % len(cpus)]) for k in range(min(jobs, len(cases)))]
    left = iter(range(len(cases)))
    outcomes: dict[int, Outcome] = {}

    def following(worker: _Worker) -> None:
        if (index := next(left, None)) is not None:
            worker.give(index)
        else:
            worker.index = -1

    for worker in workers:
        following(worker)
    while busy := [w for w in workers if w.index >= 0]:
        ready = wait([w.pipe for w in busy], timeout=5)
        for worker in busy:
            if worker.pipe in ready:
                outcomes[worker.index] = worker.take()
            elif time.monotonic() - worker.since > TIMEOUT_SECONDS:
                outcomes[worker.index] = worker.ended(f"took more than {TIMEOUT_SECONDS:.0f} s")
            else:
                continue
            following(worker)
            if not quiet and len(outcomes) % 100 == 0:
                passed = sum(o.status == "passed" for o in outcomes.values())
                print(f"{len(outcomes)} of {len(cases)}: {passed} passed", file=sys.stderr, flush=True)
    for worker in workers:
        worker.process.kill()
        worker.process.join()
    return [outcomes[index] for index in range(len(cases))]


def page(outcomes: Sequence[Outcome]) -> str:
    """docs/conformance.md."""
    total = Counter(o.status for o in outcomes)
    node = Counter(o.status for o in outcomes if o.kind == "node")
    lines = [
        "# ONNX conformance",
        "",
        f"The backend tests of onnx {onnx.__version__} (opsets up to {onnx.defs.onnx_opset_version()}), each compiled "
        "by `mlc.compile` as it is (AOT, or [the vm](vm.md) where values decide what is compiled) and run; "
        "`make conformance` writes this page.",
        "",
        f"**{total['passed']} passed, {total['failed']} failed, {total['skipped']} left out.** "
        f"Of the node tests in scope {node['passed']} of {node['passed'] + node['failed']} pass.",
        "",
        "## Left out",
        "",
        "| tests | why |",
        "|---|---|",
    ]
    reasons = Counter(o.reason for o in outcomes if o.status == "skipped")
    lines += [f"| {count} | {why} |" for why, count in reasons.most_common()]
    lines += ["", "## By op", "", "| op | passed | failed | left out | reason |", "|---|---|---|---|---|"]
    by_op: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_op[outcome.op].append(outcome)
    lines += [_row(op, by_op[op]) for op in sorted(by_op, key=str.lower)]
    return "\n".join(lines) + "\n"


def _row(op: str, outcomes: Sequence[Outcome]) -> str:
    count = Counter(o.status for o in outcomes)
    reasons = dict.fromkeys(_short(o.reason) for o in outcomes if o.reason)
    return f"| {op} | {count['passed']} | {count['failed']} | {count['skipped']} | {'; '.join(reasons)} |"


def _short(reason: str) -> str:
    """A reason as it stands in the table."""
    reason = re.sub(r"^\w*(Error|Ops|Values): ", "", reason).replace("|", "/")
    return reason if len(reason) < 120 else reason[:117] + "..."


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit code 0 if no test in scope failed."""
    parser = argparse.ArgumentParser(description="run the ONNX backend tests, compiled")
    parser.add_argument("--only", default="", help="a regular expression that the tests' names contain")
    parser.add_argument("--kinds", default=",".join(KINDS), help="the kinds of tests")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--output", help="the page to write")
    parser.add_argument("--json", help="a file for all outcomes")
    parser.add_argument("--names", help="a file of test names, one a line: only these")
    options = parser.parse_args(arguments)
    cases = [case for case in load_cases(options.kinds.split(",")) if re.search(options.only, case.name)]
    if options.names:
        names = set(Path(options.names).read_text().split())
        cases = [case for case in cases if case.name in names]
    outcomes = run_cases(cases, options.jobs)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(o) for o in outcomes], indent=0))
    if options.output:
        Path(options.output).write_text(page(outcomes))
    count = Counter(o.status for o in outcomes)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} left out")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
