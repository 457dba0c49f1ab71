"""One compilation: a model's module and weights become the files of an artifact."""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from mlc.codegen.link import has_compiler, link_shared
from mlc.dialects.attributes import MAIN_SYMBOLS
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.store import attach_store
from mlc.dialects.runtime import CallOp
from mlc.driver.cache import Cache
from mlc.driver.describe import describe, write_weights
from mlc.driver.describe.pools import checked_pools
from mlc.driver.describe.symbolic import describe_symbolic, kernel_shapes, rooms, signature_of
from mlc.driver.kernels.flops import flops_of
from mlc.driver.kernels.kernel import KernelCode, op_text, validators
from mlc.driver.models.bind_sizes import copied_store
from mlc.driver.models.kernels import KernelCompiler, Overlap, device_of
from mlc.driver.models.program import ProgramCode, program_job
from mlc.driver.models.replay import ValidatedOn, replayable
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.driver.toolchain import functions_object, is_host, runtime_objects
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_main.convert import find_function
from mlc.lowering.main_to_llvm.convert import MAIN, callees
from mlc.runtime.artifact import WEIGHTS, Artifact, Draft, drafted
from mlc.runtime.code import FUNCTIONS
from mlc.runtime.cpu import refusal
from mlc.runtime.graph.convert import expect_graph
from mlc.support.display.timing import PhaseTimer
from mlc.support.errors import fail, warn
from mlc.support.records import KnobValues, RecordKey, asking, json_values
from mlc.support.weights import WeightStore
from mlc.targets.cpu_features import used_features
from mlc.targets.device import GLOBAL, HOST, check_architecture
from mlc.targets.target import Target
from mlc.validation.plans.plan_check import check_plan

NARROWS = "graph-to-mixed-precision"
"""The pass that changes the types of factors as the option `precision` says."""


class Compilation:
    """The stages of compiling one model; `texts` holds what the options keep, by level."""

    def __init__(
        self,
        model: Model,
        options: Options,
        cache: Cache | None = None,
        timing: PhaseTimer | None = None,
        name: str = "model",
    ) -> None:
        self.model = model
        self.options = options
        self.cache = cache
        self.timing = timing or PhaseTimer()
        self.name = name
        self.ctx = make_context()
        self.target = Target.parse(options.target)
        self.host = self.target.host or self.target
        """The target of everything but the kernels."""
        self.devices = {HOST: self.target, **{one.name: Target.parse(one.target) for one in options.devices}}
        check_architecture(self.host, self.devices)
        self.texts: dict[str, str] = {}
        self.ops: dict[str, int] = {}
        self.kernels: dict[str, KernelCode] = {}
        self.asked: dict[RecordKey, KnobValues | None] = {}
        """What the graph passes asked of the records, and the answers."""
        self.warnings: list[str] = []
        self.validators: list[Any] = []
        """The instrument that validates the passes on the whole module, if the options ask for it."""
        self.weights_bytes = 0
        self.compiler = KernelCompiler(model, options, cache, self.ctx, self.devices)

    def write(self, directory: Path) -> Artifact:
        """Run all stages; the artifact stands in a new directory inside `directory`."""
        specs = signature_of(self.model)
        main, sources = self.plan()
        if not self.options.parts:
            branches = any(op.regions for op in main.body.block.ops)
            expect_graph({"symbols": MAIN_SYMBOLS in main.attributes, "control_flow": branches})
        flops = {name: flops_of(op) for name, op in sources.items()}
        with drafted(directory) as draft:
            with self.timing.phase("kernels"):
                objects = self.compile_all(main, sources, draft)
            with self.timing.phase("link"):
                link = partial(link_shared, libraries=self.libraries())
                draft.write_objects(objects, link if is_host(self.target) and has_compiler() else None)
            runs = self.runs_program()
            draft.model |= self.facts(main, specs, self.description(main, sources, flops))
            artifact = draft.finish()
        if runs:
            from mlc.driver.compare.validated import check_program

            for validator in self.validators:
                check_program(artifact, validator, self.options.threads)
        return artifact

    def runs_program(self) -> bool:
        """Whether the whole program is validated; if this CPU cannot run it, that is noted with the validators."""
        if not self.validators or self.options.memory.separate:
            return False
        if is_host(self.target) and refusal({"target": self.target_facts()}) is None:
            return True
        for validator in self.validators:
            validator.note(f"the program as a whole: it is for {self.target}, and this machine cannot run it")
        return False

    def target_facts(self) -> dict[str, Any]:
        """The description of the target in model.json."""
        return _facts(self.host, self.target, self.devices.values())

    def facts(self, main: FuncOp, specs: Mapping[str, Any], description: Mapping[str, Any]) -> dict[str, Any]:
        """What model.json says of the program; `specs` are its inputs and outputs, `description` has its calls."""
        workspace = max((code.workspace_bytes for code in self.kernels.values()), default=0)
        pools = checked_pools(main, workspace)
        return {
            "name": self.name,
            "entry": MAIN,
            "target": self.target_facts(),
            **self.placement(),
            "threads": self.options.threads,
            **specs,
            **_structure(self.model),
            **description,
            **({"pools": pools} if pools else {}),
            "workspace_bytes": description["plan"]["bytes"] + workspace,
            "kernel_workspace_bytes": workspace,
            "kernel_rooms": rooms(description["nodes"], {n: k.symbolic_bytes for n, k in self.kernels.items()}),
            "scratch_bytes": max((code.scratch_bytes for code in self.kernels.values()), default=0),
            "weights_bytes": self.weights_bytes,
            "functions": self.functions(),
            "libraries": self.libraries(),
            "report": self.report(len(description["nodes"])),
        }

    def description(self, main: FuncOp, sources: Mapping[str, FuncOp], flops: Mapping[str, Dim]) -> dict[str, Any]:
        """The calls of @main, their values, and the devices on which they run."""
        schedules = {name: code.schedule for name, code in self.kernels.items()}
        if MAIN_SYMBOLS in main.attributes:
            shapes = {name: kernel_shapes(op) for name, op in sources.items()}
            found = describe_symbolic(main, shapes, flops, schedules)
        else:
            found = describe(main, {name: n for name, n in flops.items() if isinstance(n, int)}, schedules)
        for node in found["nodes"]:
            if (device := device_of(sources[node["kernel"]])) is not None:
                node["device"] = device
        return found

    def plan(self) -> tuple[FuncOp, dict[str, FuncOp]]:
        """@main on buffers, and the kernels that it calls, still on the graph level."""
        self.optimize()
        sources = self.kernel_sources()
        with self.timing.phase("plan"):
            passes = parse_pipeline("main", self.options.settings())
            run_passes(self.model.module, self.ctx, passes, instruments=[self.timing, *self.validators])
            main = find_function(self.model.module, "main")
            check_plan(main)
        for op in main.walk():
            if isinstance(op, CallOp) and (name := op.callee.string_value()) not in sources:
                fail(op, f"expected a function @{name} in the module, but there is none")
        called = {name: sources[name] for name in callees(main)}
        if self.options.schedules is not None:
            self.options.schedules.check(called)
        return main, called

    def placement(self) -> dict[str, Any]:
        """The devices of the program, the host first, for model.json; nothing where there is one."""
        if not self.options.devices:
            return {}
        rows = [{"name": HOST, "target": str(self.target), "memory": GLOBAL}]
        for one in self.options.devices:
            compiler = {"compiler": one.compiler} if one.compiler else {}
            rows.append({"name": one.name, "target": str(self.devices[one.name]), "memory": one.memory, **compiler})
        return {"devices": rows}

    def schedule_texts(self) -> dict[str, str]:
        """The text of each kernel's te.func and sched.schedule; nothing below is compiled."""
        return self.compiler.schedule_texts(self.plan()[1])

    def optimize(self) -> None:
        """The graph passes."""
        module = self.model.module
        attach_store(module, self.model.weights)
        self.ops["imported"] = _count(module)
        passes = self.options.pipeline("graph")
        if self.options.precision != "f32" and NARROWS not in {one.name for one in passes}:
            warn(None, f"precision='{self.options.precision}' changes nothing: {NARROWS}, a pass of -O3, does not run")
        before = str(module)
        held = copied_store(self.model.weights) if self.options.validate else None  # passes add and remove weights
        with (
            self.timing.phase("graph"),
            replayable(lambda _: before, passes, lambda _: self.compared(held)),
            asking(self.options.records) as asked,
        ):
            self.validators = validators(self.options)
            hooks = [self.timing, *self.validators, *self.options.instruments]
            run_passes(module, self.ctx, passes, instruments=hooks, required=self.options.required, blame=True)
        self.asked = dict(asked)
        for validator in self.validators:
            self.compiler.recorded = validator.recorded()
        self.ops["graph"] = _count(module)
        if "graph" in self.options.keep:
            self.texts["graph"] = op_text(module, self.options) + "\n"

    def compared(self, weights: WeightStore | None) -> ValidatedOn | None:
        """On what a validating compilation has run the functions of the graph level."""
        inputs = {name: one for validator in self.validators for name, one in validator.recorded().items()}
        return ValidatedOn(inputs, weights) if self.options.validate else None

    def kernel_sources(self) -> dict[str, FuncOp]:
        """The kernels that graph-outline-kernels made."""
        ops = self.model.module.body.block.ops
        return {op.sym_name.data: op for op in ops if isinstance(op, FuncOp) and "graph.kernel" in op.attributes}

    def compile_all(self, main: FuncOp, sources: Mapping[str, FuncOp], draft: Draft) -> dict[str, bytes]:
        """All object files by name; workers compile @main among the kernels, and the weights are written meanwhile."""
        codes: list[bytes] = []

        def write() -> None:
            start = time.perf_counter()
            self.weights_bytes = write_weights(main, self.model.weights, draft.path / WEIGHTS)
            self.timing.add("weights (meanwhile)", time.perf_counter() - start)

        job = program_job(main, sources, self.ctx, self.options, self.host, self.cache)
        self.kernels = self.compile_kernels(sources, Overlap(job, codes.append, write))
        program = ProgramCode.unpack(codes[0])
        self.timing.add("main (all workers)", program.seconds)
        for level, text in program.texts.items():
            self.texts[level] = text + self.texts.get(level, "")
        objects = program.objects | ({} if self.cache else runtime_objects(self.host, None))
        if names := self.functions():
            objects[FUNCTIONS] = functions_object(names, self.host, self.cache)
        return objects | self.compiler.objects | {name: code.object for name, code in self.kernels.items()}

    def compile_kernels(self, sources: Mapping[str, FuncOp], overlap: Overlap | None = None) -> dict[str, KernelCode]:
        """The code of each kernel; `overlap` is done at the same time."""
        kernels = self.compiler.compile(sources, overlap)
        self.account(kernels)
        return kernels

    def account(self, kernels: Mapping[str, KernelCode]) -> None:
        """Add up seconds, operations, warnings and texts."""
        for name, code in kernels.items():
            for warning in code.warnings:
                text = f"kernel '{name}': {warning}"
                self.warnings.append(text)
                if self.options.opt_level >= 3:  # at lower levels slow kernels are expected
                    warn(None, text)
            for level, count in code.ops.items():
                self.ops[level] = self.ops.get(level, 0) + count
            for level, text in code.texts.items():
                self.texts[level] = self.texts.get(level, "") + text
            if name in self.compiler.compiled:
                for phase, seconds in code.seconds.items():
                    self.timing.add(f"{phase} (all workers)", seconds)

    def functions(self) -> list[str]:
        """The names of the registered functions that the kernels call, in the order of the table."""
        return sorted({name for code in self.kernels.values() for name in code.functions})

    def libraries(self) -> list[str]:
        """The libraries that the kernels are linked with."""
        return list(dict.fromkeys(name for code in self.kernels.values() for name in code.libraries))

    def report(self, calls: int) -> dict[str, Any]:
        """Statistics of the compilation, for model.json and `Executable.report`."""
        return {
            "timing": self.timing.rows(),
            "seconds": self.timing.total(),
            "precision": self.options.precision,
            "relative_error": self.relative_error(),
            **self.validated(),
            "ops": self.ops,
            "calls": calls,
            "kernels": len(self.kernels),
            "records": self.records(),
            "warnings": self.warnings,
        }

    def questions(self) -> set[RecordKey]:
        """The keys by which the records were asked."""
        return {*self.asked, *(key for code in self.kernels.values() for key in code.asked)}

    def records(self) -> list[dict[str, Any]]:
        """Each question to the records: kernel (none of graph passes), key, values that answered, or why none did."""
        rows: list[tuple[str, list[Any]]] = [
            ("", [*key, None if values is None else json_values(values)]) for key, values in self.asked.items()
        ]
        rows += [(name, row) for name, code in self.kernels.items() for row in code.records]
        return [self.record(name, *row) for name, row in rows]

    def record(self, name: str, hash_: str, target: str, threads: int, values: dict[str, Any] | None) -> dict[str, Any]:
        """The facts of one question to the records; warns if a record exists that could not be used."""
        facts = {"kernel": name, "hash": hash_, "target": target, "threads": threads, "values": values}
        provider = self.options.records
        note = provider.note(name, (hash_, target, threads)) if provider is not None and values is None else ""
        if note:
            warn(None, note)
        return facts | ({"note": note} if note else {})

    def validated(self) -> dict[str, Any]:
        """How much a validating compilation compared, and what it could not."""
        if not self.validators:
            return {}
        unsure = [text for v in self.validators for text in v.unsure]
        unsure += [text for code in self.kernels.values() for text in code.unsure]
        compared = sum(v.compared for v in self.validators) + sum(code.compared for code in self.kernels.values())
        return {"validated": {"comparisons": compared, "unsure": unsure}}

    def relative_error(self) -> float:
        """The relative error of the results that graph-to-mixed-precision estimates; 0 for f32."""
        estimate = self.model.module.attributes.get("mlc.relative_error")
        return estimate.value.data if isinstance(estimate, FloatAttr) else 0.0


def _structure(model: Model) -> dict[str, Any]:
    """The outputs that are sequences or absent optionals, by name: the names of their tensors."""
    if "graph.structure" not in model.main.attributes:
        return {}
    from mlc.frontends.onnx.structured import structure_of

    return {"structure": structure_of(model.main.attributes)}


def _facts(host: Target, target: Target, kernels: Iterable[Target]) -> dict[str, Any]:
    """The description of the target in model.json; the CPU features are those of all code in the program."""
    used = (used_features(one.architecture, one.cpu, one.features) for one in (host, *kernels))
    features = list(dict.fromkeys(name for names in used for name in names))
    return {"name": str(target), "cpu": target.cpu, "triple": target.triple, "cpu_features": features}


def _count(module: ModuleOp) -> int:
    """The operations in a module."""
    return sum(1 for _ in module.walk()) - 1


__all__ = ["Compilation"]
