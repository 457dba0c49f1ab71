"""
Every pass of one compilation, recorded: the module's texts and each kernel's, with the tags of their lines.

The model is compiled once more for this, without the cache, exactly as `mlc.compile` does it; kernels are lowered and
recorded in forked workers. The code that runs and is measured is that of the executable: the passes are the same.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.codegen.llvm.ir import print_module
from mlc.codegen.native import assemble
from mlc.dialects.graph import CallOp, FusedOp
from mlc.dialects.graph.base import location_name
from mlc.dialects.runtime import CallOp as RuntimeCallOp
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.driver.kernels.kernel import kernel_passes
from mlc.driver.kernels.workers import Job, run_jobs
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.kernels import origins_by_kernel, prepare
from mlc.driver.options import Options
from mlc.driver.pipeline.context import PassContext
from mlc.driver.pipeline.manager import run_passes
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_main.convert import find_function
from mlc.targets.target import Target
from mlc.tools.html.origins import NOTHING, Origins
from mlc.tools.html.texts import Tag, TextPool, printed

_DEBUG = re.compile(r"(?:,)? !dbg !\d+")
_NODE = re.compile(r"!(\d+) = !DILocation\(line: (\d+),")
_LOC = re.compile(r"\t\.loc\t\d+ (\d+) ")
_NOISE = re.compile(
    r"\.(Ltmp|Lfunc_begin|Lfunc_end)\d+:|\t\.(file|cfi_\w+|size|addrsig|ident)\b|\t\.section\t\"?\.note"
)


@dataclass
class Step:
    """What a pass left: a text for each function, by its kind and name; `changed` names those that are new."""

    name: str
    level: str
    seconds: float
    texts: dict[str, int]
    changed: list[str]


@dataclass
class UnitRecord:
    """The steps of the module (`kernel` is empty) or of one kernel."""

    kernel: str
    pool: TextPool = field(default_factory=TextPool)
    steps: list[Step] = field(default_factory=list[Step])

    def add(self, name: str, level: str, texts: dict[str, int], seconds: float = 0.0) -> None:
        """Add a step."""
        before = self.steps[-1].texts if self.steps else {}
        changed = [key for key, text in texts.items() if before.get(key) != text]
        changed += [key for key in before if key not in texts]
        self.steps.append(Step(name, level, seconds, texts, changed))

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return {"kernel": self.kernel, **self.pool.facts(), "steps": [asdict(step) for step in self.steps]}


@dataclass
class KernelFacts:
    """What the page needs of a kernel at once; `unit` is the compressed JSON of its texts."""

    name: str
    ops: list[str]
    """The graph operations, by name."""
    stages: list[str]
    stage_ops: list[list[int]]
    directive_loops: list[list[int]]
    unit: bytes


@dataclass
class Collected:
    """One compilation."""

    module: bytes
    """The compressed JSON of the module's unit."""
    kernels: list[KernelFacts]
    main: FuncOp
    """@main after the graph passes: calls of kernels on tensors."""
    sources: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]]
    """(source nodes, operations) of a fused region -> the source node of each operation."""


def packed(facts: dict[str, Any]) -> bytes:
    """JSON, compressed; the same data gives the same bytes."""
    return gzip.compress(json.dumps(facts, separators=(",", ":")).encode(), 6, mtime=0)


def key_of(op: Operation) -> str:
    """The name of an operation at the top of a module: `te.func @conv2d`."""
    name = op.properties.get("sym_name") or op.properties.get("kernel")
    text = name.data if isinstance(name, StringAttr) else str(name or "").removeprefix("@")
    return f"{op.name} @{text}" if text else op.name


def level_of(module: ModuleOp) -> str:
    """The level that a module is on, by its operations."""
    kinds = {op.name.partition(".")[0] for op in module.body.block.ops}
    return next((level for level in ("te", "loop", "llvm") if level in kinds), "graph")


class ModuleRecorder:
    """An instrument for the module's passes; a line's tag is (source node, call), by number."""

    def __init__(self) -> None:
        self.unit = UnitRecord("")
        self.nodes: dict[str, int] = {}
        self.calls: dict[Operation, int] = {}
        self.sources: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        self._started = 0.0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if not self.unit.steps:
            self.record("", module, 0.0)
        if module_pass.name == "graph-outline-kernels":
            for op in module.walk():
                if isinstance(op, FusedOp):
                    inner = _computing(op.body.block.ops)
                    names = [location_name(one) or "" for one in inner]
                    self.sources[tuple(origins_of(op)), tuple(one.name for one in inner)] = names
        self._started = time.perf_counter()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self.record(module_pass.name, module, time.perf_counter() - self._started)

    def record(self, name: str, module: ModuleOp, seconds: float) -> None:
        """Add what a pass left as a step; the kernels' own functions are left out, for they have their own unit."""
        calls = [op for op in module.walk() if isinstance(op, CallOp | RuntimeCallOp)]
        self.calls = {op: number for number, op in enumerate(calls)}
        tops = [op for op in module.body.block.ops if "graph.kernel" not in op.attributes]
        texts = {key_of(op): self.unit.pool.add_op(op, self.tag) for op in tops}
        level = "main" if name == "convert-graph-to-main" else level_of(module)
        self.unit.add(name or "input", level, texts, seconds)

    def tag(self, op: Operation) -> Tag | None:
        """The source node of an operation, and the call that it is."""
        names = origins_of(op) or ((name,) if (name := location_name(op)) else ())
        node = self.nodes.setdefault(names[0], len(self.nodes)) if names else -1
        call = self.calls.get(op, -1)
        return (node, call) if node >= 0 or call >= 0 else None

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.unit.facts(), "nodes": list(self.nodes)}


class KernelRecorder:
    """An instrument for one kernel's passes, and the texts of its machine code."""

    def __init__(self, name: str) -> None:
        self.unit = UnitRecord(name)
        self.origins = Origins()
        self.names: list[str] = []
        self._started = 0.0
        self._directives: list[list[int]] = []

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if not self.unit.steps:
            for func in module.body.block.ops:
                if isinstance(func, FuncOp):
                    self.origins.start(func)
            self.names = [op.name for op in self.origins.ops]
            self.record("input", module, 0.0)
        match module_pass.name:
            case "convert-te-to-loop":
                self.origins.before_loops(module)
                self.unit.steps.pop()  # the last text of the te level, again, with its stages and directives
                self.record(self._last.name, module, self._last.seconds)
            case "loop-apply-schedule":
                self._directives = self.origins.before_schedule(module)
            case "convert-loop-to-llvm":
                self.end_loops(module)
            case _:
                pass
        self._started = time.perf_counter()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        seconds = time.perf_counter() - self._started
        if module_pass.name == "convert-graph-to-te":
            for func in module.body.block.ops:
                for stage in (op for region in func.regions for block in region.blocks for op in block.ops):
                    for op in stage.walk():
                        op.location = stage.location
        if module_pass.name == "loop-apply-schedule":
            self.origins.after_schedule(module, self._directives)
        self.record(module_pass.name, module, seconds)

    def record(self, name: str, module: ModuleOp, seconds: float) -> None:
        """Add what a pass left as a step."""
        texts = {key_of(op): self.unit.pool.add_op(op, self.origins.tag) for op in module.body.block.ops}
        self._last = Step(name, "", seconds, {}, [])
        self.unit.add(name, level_of(module), texts, seconds)

    def end_loops(self, module: ModuleOp) -> None:
        """Number the lines of the loop level's text, from which the llvm operations come."""
        for func in module.body.block.ops:
            lines, spans = printed(func)
            tags: list[Tag | None] = [None] * len(lines)
            for op, first, last in spans:
                inner = self.origins.tag(op) or NOTHING
                tags[first] = (first + 1, *inner[1:4], -1, last + 1)
                tags[last] = tags[last] or tags[first]
            key = key_of(func)
            step = self.unit.steps[-1]
            self.unit.steps[-1] = replace(step, texts={**step.texts, key: self.unit.pool.add(lines, tags)})
            self.origins.before_llvm(spans, tags)

    def code(self, module: ModuleOp, target: Target) -> None:
        """Add the LLVM IR and the assembly, whose lines come from lines of the loop level's text."""
        start = time.perf_counter()
        text = print_module(module, target=target, lines=True)
        middle = time.perf_counter()
        numbers = {number: int(line) for number, line in _NODE.findall(text)}
        name, pool = self.unit.kernel, self.unit.pool
        ir = [line for line in text.split("\n") if not line.startswith("!")]
        tags = [self._ir_tag(line, numbers) for line in ir]
        self.unit.add("print-llvm-ir", "llvm-ir", {f"LLVM IR {name}": pool.add([_DEBUG.sub("", x) for x in ir], tags)})
        self.unit.steps[-1].seconds = middle - start
        lines, tags = assembly_lines(assemble(text, target), self.origins.at_line)
        self.unit.add("codegen", "asm", {f"assembly {name}": pool.add(lines, tags)}, time.perf_counter() - middle)

    def _ir_tag(self, line: str, numbers: dict[str, int]) -> Tag | None:
        number = line.rpartition("!dbg !")[2] if "!dbg !" in line else ""
        return self.origins.at_line(numbers.get(number, 0))

    def facts(self) -> KernelFacts:
        """What the page needs."""
        origins = self.origins
        stage_ops = [sorted(origins.stage_ops.get(number, ())) for number in origins.stages.values()]
        unit = packed(self.unit.facts())
        name = self.unit.kernel
        return KernelFacts(name, self.names, list(origins.stages), stage_ops, origins.directive_loops, unit)


def assembly_lines(text: str, at_line: Callable[[int], Tag | None]) -> tuple[list[str], list[Tag | None]]:
    """
    The instructions, labels and data of an assembly text, and the tags of its instructions.

    A `.loc` directive, which is left out, holds until the next one or the end of its function.
    """
    lines: list[str] = []
    tags: list[Tag | None] = []
    at: Tag | None = None
    for line in text.split("\n"):
        if (found := _LOC.match(line)) is not None:
            at = at_line(int(found[1]))
        elif not _NOISE.match(line) and line.strip():
            if not line.startswith(("\t", ".L", "#")):  # the label of a function
                at = None
            is_code = line.startswith("\t") and not line.startswith("\t.")
            lines.append(line.expandtabs(8).removeprefix("    "))
            tags.append(at if is_code else None)
    return lines, tags


def collect(model: Model, options: Options) -> Collected:
    """Compile a model and record every pass. The model's module is changed."""
    recorder = ModuleRecorder()
    context = options.context or PassContext(opt_level=options.opt_level)
    watched = replace(context, instruments=[*context.instruments, recorder])
    compilation = Compilation(model, replace(options, context=watched))
    compilation.optimize()
    sources = compilation.kernel_sources()
    main = find_function(model.module, "main").clone()
    kernels = _kernels(compilation, sources, options)
    run_passes(model.module, compilation.ctx, ["main"], instruments=[recorder])
    bare = ModuleOp([find_function(model.module, "main").clone()])
    run_passes(bare, compilation.ctx, ["program"], instruments=[recorder])
    _add_main_code(recorder, bare, compilation.target)
    return Collected(packed(recorder.facts()), kernels, main, recorder.sources)


def _add_main_code(recorder: ModuleRecorder, module: ModuleOp, target: Target) -> None:
    """The LLVM IR and the assembly of @main; the kernels that it calls are declared there."""
    unit, text = recorder.unit, ""
    for name, level, label in (("print-llvm-ir", "llvm-ir", "LLVM IR main"), ("codegen", "asm", "assembly main")):
        start = time.perf_counter()
        text = print_module(module, target=target) if level == "llvm-ir" else assemble(text, target)
        seconds = time.perf_counter() - start
        lines = [line.expandtabs(8) for line in text.split("\n") if line.strip()]
        unit.add(name, level, {label: unit.pool.add(lines, [None] * len(lines))}, seconds)


def _kernels(compilation: Compilation, sources: dict[str, FuncOp], options: Options) -> list[KernelFacts]:
    """Lower and record each kernel, in forked workers."""
    passes, origins = kernel_passes(options), origins_by_kernel(compilation.model)

    def job(name: str, op: FuncOp) -> Job:
        def work() -> bytes:
            facts = record_kernel(name, op, compilation, compilation.compiler.passes_of(name, passes))
            head = json.dumps({**asdict(replace(facts, unit=b"")), "unit": ""}).encode()
            return len(head).to_bytes(8, "little") + head + facts.unit

        return Job(name, origins.get(name, ()), work)

    prepare(compilation.target)
    results = run_jobs([job(name, op) for name, op in sources.items()])
    return [_unpacked(data) for data in results]


def _unpacked(data: bytes) -> KernelFacts:
    end = 8 + int.from_bytes(data[:8], "little")
    facts: dict[str, Any] = json.loads(data[8:end])
    facts["unit"] = data[end:]
    return KernelFacts(**facts)


def record_kernel(name: str, op: Operation, compilation: Compilation, passes: Sequence[ModulePass]) -> KernelFacts:
    """Lower one kernel, pass by pass."""
    recorder = KernelRecorder(name)
    module = ModuleOp([op.clone()])
    run_passes(module, compilation.ctx, passes, instruments=[recorder], required=compilation.options.required)
    recorder.code(module, compilation.target)
    return recorder.facts()


def _computing(ops: Iterable[Operation]) -> list[Operation]:
    """Operations without constants, parameters and terminators."""
    left_out = ("graph.constant", "graph.param", "graph.yield", "func.return")
    return [op for op in ops if op.name not in left_out]


__all__ = ["Collected", "KernelFacts", "assembly_lines", "collect", "packed", "record_kernel"]
