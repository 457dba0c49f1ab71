"""The kernels of one compilation: from the cache, from workers that lower them, or from external compilers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects.attributes import EXTERNAL_COMPILER, GRAPH_DEVICE
from mlc.dialects.runtime import CallOp
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.driver.cache import Cache, key_of
from mlc.driver.kernels.flops import VALIDATED_EFFORT, effort_of
from mlc.driver.kernels.kernel import KernelCode, compile_kernel, kernel_passes, text_of
from mlc.driver.kernels.workers import Job, run_jobs
from mlc.driver.models.replay import ValidatedOn, replayable
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.text import pass_text
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_main.convert import find_function
from mlc.support.errors import UserError
from mlc.support.records import asking
from mlc.targets.device import HOST
from mlc.targets.target import Target


@dataclass(frozen=True)
class Overlap:
    """
    Work that overlaps the compilation of kernels.

    It is a job for a worker, whose result goes to `take`, and a function that this process runs meanwhile.
    """

    job: Job
    take: Callable[[bytes], None]
    meanwhile: Callable[[], None]


@dataclass
class KernelCompiler:
    """Compiles the kernels of a model, each for its device, with the options and the cache of one compilation."""

    model: Model
    options: Options
    cache: Cache | None
    ctx: Context
    targets: Mapping[str, Target]
    """The targets of the devices by name, the host's among them."""
    recorded: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Inputs of the kernels by name, recorded while the graph passes were validated."""
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Further objects of kernels that external compilers made, by name."""
    compiled: list[str] = field(default_factory=list[str])
    """The kernels that workers compiled; the others came from the cache or from external compilers."""

    def compile(self, sources: Mapping[str, FuncOp], overlap: Overlap | None = None) -> dict[str, KernelCode]:
        """The code of each kernel; `overlap` is done at the same time."""
        made = {name: self._external(op) for name, op in sources.items() if EXTERNAL_COMPILER in op.attributes}
        sources = {name: op for name, op in sources.items() if name not in made}
        compiled_for = {name: self.options.on(device_of(op) or HOST) for name, op in sources.items()}
        by_target = {one.target: one for one in (self.options.on(HOST), *compiled_for.values())}
        passes = {target: kernel_passes(one) for target, one in by_target.items()}
        cache = None if self.options.keep or self.options.validate else self.cache
        keys: dict[str, str] = {}
        if cache is not None:
            how = {target: _how(one, passes[target]) for target, one in by_target.items()}
            keys = self._keys(sources, {name: how[one.target] for name, one in compiled_for.items()})
        packed = {name: data for name, key in keys.items() if cache and (data := self._cached(cache, key)) is not None}
        missing = [name for name in sources if name not in packed]
        jobs = self._jobs({name: sources[name] for name in missing}, compiled_for, passes)
        for target in self.targets.values():
            prepare(target)
        host = passes[self.options.on(HOST).target]
        with replayable(lambda error: _text_of(sources.get(error.kernel)), host, self._compared):
            results = self._results(jobs, overlap)
        for name, data in zip(missing, results, strict=True):
            packed[name] = data
            if cache is not None:
                self._publish(cache, keys[name], data)
        self.compiled += missing
        return made | {name: KernelCode.unpack(packed[name]) for name in sources}

    def schedule_texts(self, sources: Mapping[str, FuncOp]) -> dict[str, str]:
        """The text of each kernel's te.func and sched.schedule; nothing below is compiled."""
        origins = origins_by_kernel(self.model)
        sources = {name: op for name, op in sources.items() if EXTERNAL_COMPILER not in op.attributes}
        jobs = [Job(name, origins.get(name, ()), self._scheduling(name, op)) for name, op in sources.items()]
        return {name: text.decode() for name, text in zip(sources, run_jobs(jobs), strict=True)}

    def passes_of(self, name: str, passes: list[ModulePass]) -> list[ModulePass]:
        """The passes of one kernel; `te-read-schedules` is among them if its schedule is written by hand."""
        handed = self.options.schedules
        return passes if handed is None or handed.text(name) is None else handed.with_pass(passes)

    def _scheduling(self, name: str, source: Operation) -> Callable[[], bytes]:
        """The job that makes the schedule of one kernel."""
        options = self.options.on(device_of(source) or HOST)
        passes = self.passes_of(name, kernel_passes(options))
        end = [one.name for one in passes].index("convert-te-to-loop")

        def work() -> bytes:
            module = ModuleOp([source.clone()])
            with asking(options.records):
                run_passes(module, self.ctx, passes[:end])
            return text_of(module, self.options).encode()

        return work

    def _keys(self, sources: Mapping[str, FuncOp], how: Mapping[str, str]) -> dict[str, str]:
        """The keys of kernels in the cache: of the source, `how` it is compiled, and a schedule written by hand."""
        handed = self.options.schedules
        by_hand = dict(handed.texts if handed else ())
        return {name: key_of([str(op), how[name], by_hand.get(name, "")]) for name, op in sources.items()}

    def _jobs(
        self,
        sources: Mapping[str, FuncOp],
        compiled_for: Mapping[str, Options],
        passes: Mapping[str, list[ModulePass]],
    ) -> list[Job]:
        """The jobs that compile kernels, with the options of each one's device and the passes of its target."""
        origins = origins_by_kernel(self.model)
        scale = VALIDATED_EFFORT if self.options.validate else 1
        jobs: list[Job] = []
        for name, op in sources.items():
            one = compiled_for[name]
            work = self._work(name, op, one, passes[one.target])
            jobs.append(Job(name, origins.get(name, ()), work, effort=scale * effort_of(op)))
        return jobs

    def _work(
        self, name: str, source: Operation, options: Options, device_passes: list[ModulePass]
    ) -> Callable[[], bytes]:
        """The job of one kernel, with the options and the passes of its device."""
        passes, handed = self.passes_of(name, device_passes), self.options.schedules

        def work() -> bytes:
            try:
                return compile_kernel([source], self.ctx, passes, options, self.recorded).pack()
            except UserError as error:
                place = handed.place(name, error) if handed else error.place
                raise UserError(error.text, error.op, place) from error

        return work

    def _results(self, jobs: Sequence[Job], overlap: Overlap | None) -> list[bytes]:
        """What the jobs return; `overlap` is done at the same time."""
        # Instruments collect facts in this process, so they see only the passes that run here.
        workers = 1 if self.options.instruments else None
        if overlap is None:
            return run_jobs(jobs, workers)
        *results, other = run_jobs([*jobs, overlap.job], workers, meanwhile=overlap.meanwhile)
        overlap.take(other)
        return results

    def _compared(self, error: Any) -> ValidatedOn | None:
        """The inputs, weights among them, with which a validating compilation ran the kernel that failed."""
        inputs = {name: one for name, one in self.recorded.items() if name.partition(" #")[0] == error.kernel}
        return ValidatedOn(inputs, None) if self.options.validate else None

    def _cached(self, cache: Cache, key: str) -> bytes | None:
        """A kernel of the cache that was compiled with what the records answer now."""
        found = (cache.kernel(one) for one in cache.keys(key, self.options.records))
        return next((data for data in found if data is not None), None)

    def _publish(self, cache: Cache, key: str, data: bytes) -> None:
        """Put the code of a kernel into the cache, beside what the records answered."""
        asked = KernelCode.unpack(data).asked
        cache.publish_kernel(cache.note_asked(key, self.options.records, asked), data)

    def _external(self, function: FuncOp) -> KernelCode:
        """The code of a kernel that an external compiler makes, in this process."""
        from mlc.driver.kernels.external import check_external, compile_external

        target = self.targets.get(device_of(function) or HOST, self.targets[HOST])
        code = compile_external(function, self.model.weights, target)
        self.objects |= code.objects
        if self.options.validate:
            check_external(code, function, self.recorded, self.options)
        return code.kernel


def origins_by_kernel(model: Model) -> dict[str, tuple[str, ...]]:
    """The source nodes of each kernel that @main calls."""
    found: dict[str, tuple[str, ...]] = {}
    for op in find_function(model.module, "main").walk():
        if isinstance(op, CallOp):
            name = op.callee.string_value()
            found[name] = (*found.get(name, ()), *origins_of(op))
    return found


def device_of(kernel: Operation) -> str | None:
    """The device of a kernel, or the external compiler that made it; None in a program of one device."""
    device = kernel.attributes.get(GRAPH_DEVICE) or kernel.attributes.get(EXTERNAL_COMPILER)
    return device.data if isinstance(device, StringAttr) else None


def prepare(target: Target) -> None:
    """Load LLVM and make its target machine before forking, so that no worker repeats it."""
    from mlc.codegen import native
    from mlc.codegen.llvm import ir as llvm_ir

    del llvm_ir
    native.target_machine(target)


def _text_of(kernel: Operation | None) -> str | None:
    """A kernel as text; None of the program's function, which is compiled among the kernels."""
    return None if kernel is None else str(kernel)


def _how(options: Options, passes: Sequence[ModulePass]) -> str:
    """The part of kernels' cache keys that says how they are compiled."""
    return ",".join(map(pass_text, passes)) + options.key() + Target.parse(options.target).features
