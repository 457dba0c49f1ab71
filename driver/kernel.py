"""One kernel from the graph or te level to an object file: what each worker runs."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.llvm import FuncOp as LLVMFuncOp
from xdsl.ir import Operation

from mlc.driver.options import Options
from mlc.driver.pipeline.manager import parse_pipeline, run_passes
from mlc.lowering.loop_to_llvm.memory import symbolic_bytes
from mlc.schedules.summary import summary_of
from mlc.support.errors import collected_warnings
from mlc.targets.target import Target

# The conversion after which the IR is wholly on the next level: what is kept before it runs.
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
    """By pass, and `codegen`."""
    ops: dict[str, int] = field(default_factory=dict)
    """Operations by level."""
    warnings: list[str] = field(default_factory=list)
    """What the passes warned of, each text once."""
    schedule: str = ""
    """The strategy that chose its schedule, and the main sizes."""

    def pack(self) -> bytes:
        """As bytes: the facts as JSON behind their length, then the object."""
        facts = {name: value for name, value in vars(self).items() if name != "object"}
        text = json.dumps(facts).encode()
        return len(text).to_bytes(8, "little") + text + self.object

    @staticmethod
    def unpack(data: bytes) -> "KernelCode":
        """What `pack` made."""
        end = 8 + int.from_bytes(data[:8], "little")
        return KernelCode(object=data[end:], **json.loads(data[8:end]))


class _Watch:
    """An instrument: seconds by pass, and the text of each level before the next begins."""

    def __init__(self, keep: frozenset[str]) -> None:
        self.keep = keep
        self.code = KernelCode(b"")
        self._started = 0.0

    def before(self, module_pass: Any, module: ModuleOp) -> None:
        level = _ENDS_LEVEL.get(module_pass.name)
        if level is not None:
            self.note(level, module)
        if level == "te":
            self.code.schedule = summary_of(module)
        self._started = time.perf_counter()

    def after(self, module_pass: Any, module: ModuleOp) -> None:
        seconds = self.code.seconds
        seconds[module_pass.name] = seconds.get(module_pass.name, 0.0) + time.perf_counter() - self._started

    def note(self, level: str, module: ModuleOp) -> None:
        """Count the level's operations, and keep its text if it is asked for."""
        self.code.ops[level] = sum(1 for _ in module.walk()) - 1
        if level in self.keep:
            self.code.texts[level] = text_of(module)


def text_of(module: ModuleOp) -> str:
    """The module's operations as text, without the module around them."""
    return "\n".join(str(op) for op in module.body.block.ops) + "\n"


def kernel_passes(options: Options, start: str = "graph") -> list[Any]:
    """The passes from the level `start` (graph, te or loop) to llvm."""
    passes = options.pipeline("kernel")
    names = [one.name for one in passes]
    if start == "graph" and "convert-graph-to-te" not in names:
        return [*parse_pipeline("convert-graph-to-te"), *passes]
    if start == "loop":
        return passes[names.index("convert-te-to-loop") + 1 :]
    return passes


def compile_kernel(
    ops: Sequence[Operation],
    ctx: Context,
    passes: Sequence[Any],
    options: Options,
    inputs: "Mapping[str, Sequence[Any]] | None" = None,
) -> KernelCode:
    """
    Lower one kernel (and the schedule beside it) in a module of its own, and emit its object file.

    `inputs` are what the kernel is run on where the options ask for validation.
    """
    from mlc.codegen.llvm_ir import print_module
    from mlc.codegen.native import assemble, emit_object

    module = ModuleOp([op.clone() for op in ops])
    watch = _Watch(options.keep)
    code = watch.code
    with collected_warnings() as found:
        hooks = [watch, *validators(options, inputs), *options.instruments]
        run_passes(module, ctx, passes, instruments=hooks, required=options.required, blame=True)
    code.warnings = list(dict.fromkeys(found))
    watch.note("llvm", module)
    start = time.perf_counter()
    target = Target.parse(options.target)
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
            code.workspace_bytes = max(code.workspace_bytes, _bytes(op, "mlc.workspace_bytes"))
            code.scratch_bytes = max(code.scratch_bytes, _bytes(op, "mlc.scratch_bytes"))
            code.symbolic_bytes += symbolic_bytes(op)
    return code


def validators(options: Options, inputs: "Mapping[str, Sequence[Any]] | None" = None) -> list[Any]:
    """The instrument that validates each pass, if that is asked for."""
    if not options.validate:
        return []
    from mlc.validation.validate_each import ValidateInstrument

    return [ValidateInstrument(inputs=dict(inputs or {}))]


def _bytes(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else 0
