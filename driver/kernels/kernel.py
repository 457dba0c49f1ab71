"""Lowers one kernel from the graph, te or loop level to an object file: the work of each worker."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import FuncOp as LLVMFuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.attributes import (
    NATIVE_CALLS,
    NATIVE_LIBRARIES,
    NATIVE_SCRATCH_BYTES,
    NATIVE_WORKSPACE_BYTES,
    texts_of,
)
from mlc.dialects.constants import integer
from mlc.dialects.syntax.source_nodes import ir_text
from mlc.dialects.walk import walk
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import parse_pipeline, run_passes
from mlc.lowering.memory.kernel_buffers import encoded_rows, symbolic_bytes
from mlc.schedules.summary import summary_of
from mlc.support.errors import collected_warnings, fail
from mlc.support.records import RecordKey, asking, json_values
from mlc.targets.target import Target

# The conversion that ends a level -> the level, whose text is recorded before the conversion runs.
_ENDS_LEVEL = {"convert-te-to-loop": "te", "convert-loop-to-llvm": "loop"}


@dataclass
class KernelCode:
    """A compiled kernel."""

    object: bytes
    workspace_bytes: int = 0
    scratch_bytes: int = 0
    symbolic_bytes: list[list[Any]] = field(default_factory=list)
    """The factors of the sizes of buffers in the workspace, over the kernel's symbols: see `runtime/sizes.py`."""
    texts: dict[str, str] = field(default_factory=dict)
    """The kernel's text on each level that the options keep."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by pass, and of `print-llvm-ir` and `codegen`."""
    ops: dict[str, int] = field(default_factory=dict)
    """Operations by level."""
    warnings: list[str] = field(default_factory=list)
    """What the passes warned of, each text once."""
    compared: int = 0
    """Comparisons of the kernel before and after a pass, by a validating compilation."""
    unsure: list[str] = field(default_factory=list)
    """What that could not validate."""
    functions: list[str] = field(default_factory=list)
    """The names of the registered functions that it calls."""
    libraries: list[str] = field(default_factory=list)
    """The libraries that it is linked with."""
    records: list[list[Any]] = field(default_factory=list)
    """What was asked of the records: the kernel's hash, target and threads, and the values that answered, or None."""
    schedule: str = ""
    """Summary of its schedule: the strategy, the register tile, the parallel loop."""

    @property
    def asked(self) -> list[RecordKey]:
        """The keys by which the records were asked."""
        return [(row[0], row[1], row[2]) for row in self.records]

    def pack(self) -> bytes:
        """As bytes: the length of a JSON header in 8 bytes, the header, the object."""
        facts = {name: value for name, value in vars(self).items() if name != "object"}
        text = json.dumps(facts).encode()
        return len(text).to_bytes(8, "little") + text + self.object

    @staticmethod
    def unpack(data: bytes) -> "KernelCode":
        """The kernel that `pack` made bytes of."""
        end = 8 + int.from_bytes(data[:8], "little")
        return KernelCode(object=data[end:], **json.loads(data[8:end]))


class _LevelRecorder:
    """An instrument: seconds by pass, and the text of each level before the next begins."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.code = KernelCode(b"")
        self._started = 0.0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        level = _ENDS_LEVEL.get(module_pass.name)
        if level is not None:
            self.note(level, module)
        if level == "te":
            self.code.schedule = summary_of(module)
        if level == "loop":
            _check_features(module, self.options)
            _check_plans(module)
        self._started = time.perf_counter()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        seconds = self.code.seconds
        seconds[module_pass.name] = seconds.get(module_pass.name, 0.0) + time.perf_counter() - self._started

    def note(self, level: str, module: ModuleOp) -> None:
        """Count the level's operations, and keep its text if it is asked for."""
        self.code.ops[level] = sum(1 for _ in walk(module)) - 1
        if level in self.options.keep:
            self.code.texts[level] = text_of(module, self.options)


def _check_plans(module: ModuleOp) -> None:
    """PlanError if two buffers inside a kernel share memory while both are in use."""
    from mlc.validation.plans.kernel_plan_check import check_kernel_plan

    for op in module.body.block.ops:
        if isinstance(op, loop.FuncOp):
            check_kernel_plan(op)


def text_of(module: ModuleOp, options: Options) -> str:
    """The module's operations as text, without the module around them; with what the options want shown of them."""
    return "".join(f"{op_text(op, options)}\n" for op in module.body.block.ops)


def op_text(op: Operation, options: Options) -> str:
    """An operation as text, with its source nodes and locations if the options want them shown."""
    return ir_text(op, nodes=options.show_nodes, locations=options.show_locations)


def kernel_passes(options: Options, start: str = "graph") -> list[ModulePass]:
    """The passes from the level `start` (graph, te or loop) to llvm."""
    passes = options.pipeline("kernel")
    names = [one.name for one in passes]
    if start == "graph" and "convert-graph-to-te" not in names:
        return [*parse_pipeline("convert-graph-to-te"), *passes]
    if start == "loop":
        return passes[names.index("convert-te-to-loop") + 1 :]
    return passes


def _check_features(module: ModuleOp, options: Options) -> None:
    """UserError for an intrinsic of the schedule or of the loops that the target lacks."""
    target = Target.parse(options.target)
    for op in walk(module):
        if isinstance(op, loop.CallIntrinsicOp):
            missing = target.missing([feature.data for feature in op.requires.data])
            if missing:
                fail(op, f"'{op.intrin.data}' needs {', '.join(missing)}, which target '{options.target}' lacks")


def compile_kernel(
    ops: Sequence[Operation],
    ctx: Context,
    passes: Sequence[ModulePass],
    options: Options,
    inputs: "Mapping[str, Sequence[Any]] | None" = None,
) -> KernelCode:
    """
    Lower one kernel (and the schedule beside it) in a module of its own, and emit its object file.

    `inputs` are arrays by kernel, on which a validating compilation runs it.
    """
    module = ModuleOp([op.clone() for op in ops])
    target = Target.parse(options.target)
    if target.is_c:
        from mlc.driver.export.c_kernel import c_passes

        passes = c_passes(passes)
    recorder = _LevelRecorder(options)
    code = recorder.code
    with collected_warnings() as found, asking(options.records) as asked:
        watching = validators(options, inputs)
        hooks = [recorder, *watching, *options.instruments]
        run_passes(module, ctx, passes, instruments=hooks, required=options.required, blame=True)
    for validator in watching:
        code.compared, code.unsure = validator.compared, validator.unsure
    code.warnings = list(dict.fromkeys(found))
    code.records = [[*key, None if values is None else json_values(values)] for key, values in asked.items()]
    if target.is_c:
        return _through_c(module, recorder)
    return _emit(module, target, recorder)


def _emit(module: ModuleOp, target: Target, recorder: _LevelRecorder) -> KernelCode:
    """The code of a kernel on level llvm: its object file, its scratch memory and the functions that it calls."""
    from mlc.codegen.llvm.ir import print_module
    from mlc.codegen.native import assemble, emit_object

    code, options = recorder.code, recorder.options
    recorder.note("llvm", module)
    start = time.perf_counter()
    text = print_module(module, target=target)
    middle = time.perf_counter()
    code.object = emit_object(text, target)
    code.seconds |= {"print-llvm-ir": middle - start, "codegen": time.perf_counter() - middle}
    if "llvm-ir" in options.keep:
        code.texts["llvm-ir"] = text
    if "asm" in options.keep:
        code.texts["asm"] = assemble(text, target)
    for op in module.body.block.ops:
        if isinstance(op, LLVMFuncOp):
            code.workspace_bytes = max(code.workspace_bytes, integer(op.attributes.get(NATIVE_WORKSPACE_BYTES)) or 0)
            code.scratch_bytes = max(code.scratch_bytes, integer(op.attributes.get(NATIVE_SCRATCH_BYTES)) or 0)
            code.symbolic_bytes += symbolic_bytes(op)
            code.functions += texts_of(op, NATIVE_CALLS)
            code.libraries += texts_of(op, NATIVE_LIBRARIES)
    return code


def _through_c(module: ModuleOp, recorder: _LevelRecorder) -> KernelCode:
    """The code of a kernel whose loops are printed as C; it has no text below the level loop."""
    from mlc.driver.export.c_kernel import c_object

    code, options = recorder.code, recorder.options
    recorder.note("loop", module)
    start = time.perf_counter()
    code.object, made = c_object(module, options.threads)
    code.workspace_bytes, code.scratch_bytes = made.workspace_bytes, made.scratch_bytes
    code.symbolic_bytes = encoded_rows(made.symbolic)
    called = [op.called for op in made.calls]
    code.functions = list(dict.fromkeys(one.name for one in called if one.convention == "registered"))
    code.libraries = list(dict.fromkeys(name for one in called for name in one.libraries))
    code.seconds["codegen"] = time.perf_counter() - start
    return code


def validators(options: Options, inputs: "Mapping[str, Sequence[Any]] | None" = None) -> list[Any]:
    """The instrument that validates each pass, if the options ask for it."""
    if not options.validate:
        return []
    from mlc.validation.validate_each import ValidateInstrument

    return [ValidateInstrument(inputs=dict(inputs or {}))]
