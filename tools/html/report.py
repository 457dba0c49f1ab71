"""All that the page shows, as data: `report_of` collects it, `InspectReport.facts` is its JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mlc.dialects.graph import CallOp
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.runtime.sizes import Sizes
from mlc.runtime.symbolic import static_model
from mlc.support.version import __version__
from mlc.tools.html.collect import Collected, KernelFacts
from mlc.tools.html.graph import graph_facts
from mlc.tools.html.memory import memory_facts

if TYPE_CHECKING:
    from mlc.runtime.executable import Executable
    from mlc.runtime.profile import Profile


@dataclass
class CallFacts:
    """One call of a kernel in @main; `sources` has the source node of each of the kernel's operations."""

    kernel: int
    origins: list[str]
    sources: list[str]
    flops: int | None
    bytes: int | None


@dataclass
class InspectReport:
    """The data of one page; `units` are compressed JSON: the module's texts, then each kernel's."""

    model: dict[str, Any]
    kernels: list[dict[str, Any]]
    calls: list[CallFacts]
    graph: dict[str, Any]
    memory: dict[str, Any]
    profile: dict[str, Any]
    units: list[bytes]

    def facts(self) -> dict[str, Any]:
        """Everything but the units, as JSON."""
        return {
            "model": self.model,
            "kernels": self.kernels,
            "calls": [asdict(call) for call in self.calls],
            "graph": self.graph,
            "memory": self.memory,
            "profile": self.profile,
        }

    def unit(self, number: int) -> dict[str, Any]:
        """The texts of the module (0) or of a kernel (its number plus 1), as JSON."""
        return json.loads(gzip.decompress(self.units[number]))


def report_of(
    name: str,
    executable: Executable,
    collected: Collected,
    profile: Profile | None,
    unmeasured: str = "",
    inputs: Mapping[str, Any] | None = None,
) -> InspectReport:
    """
    The report of a model from its executable and the record of its compilation.

    Without a profile `unmeasured` says why there is none. `inputs` are arrays, whose shapes give open sizes.
    """
    model = executable.artifact.model
    static = _at_sizes(executable, inputs)
    calls = _calls(collected, static or model)
    lines = [_lines(collected.kernels[call.kernel], call) for call in calls]
    names = [spec.name for spec in executable.inputs], [spec.name for spec in executable.outputs]
    graph = graph_facts(collected.main, lines, *names)
    if static is None:
        memory: dict[str, Any] = {"missing": "sizes are open, so the plan is made at each call; give them with --at"}
    else:
        memory = memory_facts(static) | _room(model) | {"open": bool(model.get("symbols"))}
    times = {"missing": unmeasured} if profile is None else _profile(profile)
    kernels = [_kernel(one, model, calls, number) for number, one in enumerate(collected.kernels)]
    units = [collected.module, *(one.unit for one in collected.kernels)]
    about = _about(name, executable, inputs) | {"ops": executable.report["ops"]}
    return InspectReport(about, kernels, calls, graph, memory, times, units)


def _about(name: str, executable: Executable, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    model, report = executable.artifact.model, executable.report
    shapes = {n: "x".join(map(str, a.shape)) for n, a in (inputs or {}).items()} if model.get("symbols") else {}
    return {
        "name": name,
        "version": __version__,
        "target": model["target"],
        "threads": executable.threads,
        "precision": report.get("precision", "f32"),
        "seconds": report["seconds"],
        "inputs": [str(spec) for spec in executable.inputs],
        "outputs": [str(spec) for spec in executable.outputs],
        "symbols": [list(one[:4]) for one in model.get("symbols", ())],
        "at": shapes,
        "weights_bytes": model["weights_bytes"],
        "warnings": report.get("warnings", []),
    }


def _room(model: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "weights": model["weights_bytes"],
        "kernel_workspace": model["kernel_workspace_bytes"],
        "scratch": model["scratch_bytes"],
    }


def _at_sizes(executable: Executable, inputs: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The description of the model at the sizes of the inputs; None where sizes are open and there are no inputs."""
    model = executable.artifact.model
    if not model.get("symbols"):
        return model
    if inputs is None:
        return None
    bound = Sizes(model).bind([tuple(inputs[spec.name].shape) for spec in executable.inputs])
    return static_model(model, bound)


def _calls(collected: Collected, model: Mapping[str, Any]) -> list[CallFacts]:
    """The calls of @main in order, with the facts of the executable's calls, which are the same ones."""
    numbers = {one.name: number for number, one in enumerate(collected.kernels)}
    ops = [op for op in collected.main.walk() if isinstance(op, CallOp)]
    names = [op.callee.string_value() for op in ops]
    nodes: Sequence[Mapping[str, Any]] = model["nodes"]
    if names != [node["kernel"] for node in nodes]:
        raise RuntimeError("the recorded compilation calls other kernels than the executable")
    calls: list[CallFacts] = []
    for op, name, node in zip(ops, names, nodes, strict=True):
        kernel, origins = numbers[name], list(origins_of(op))
        inner = collected.kernels[kernel].ops
        known = collected.sources.get((tuple(origins), tuple(inner)))
        sources = known or [origins[0] if len(origins) == 1 else ""] * len(inner)
        work = [n if isinstance(n := node[what], int) else None for what in ("flops", "bytes")]
        calls.append(CallFacts(kernel, origins, sources, *work))
    return calls


def _lines(kernel: KernelFacts, call: CallFacts) -> list[str]:
    """The operations in a call's box: `conv2d  n1`."""
    named = zip(kernel.ops, call.sources, strict=True)
    lines = [f"{op.partition('.')[2]}  {source}".rstrip() for op, source in named]
    return lines if len(lines) <= 12 else [*lines[:11], f"... {len(lines) - 11} more"]


def _kernel(one: KernelFacts, model: Mapping[str, Any], calls: Sequence[CallFacts], number: int) -> dict[str, Any]:
    own = [index for index, call in enumerate(calls) if call.kernel == number]
    schedule = next((node["schedule"] for node in model["nodes"] if node["kernel"] == one.name), "")
    sizes = {name: size for name, _, size in model["objects"]}
    facts: dict[str, Any] = {"schedule": schedule, "object": sizes.get(one.name, 0)}
    return {**{name: value for name, value in asdict(one).items() if name != "unit"}, **facts, "calls": own}


def _profile(profile: Profile) -> dict[str, Any]:
    machine = profile.machine
    keep = ("seconds", "least_seconds", "gflops", "gbytes", "intensity", "percent_of_peak", "percent_of_bandwidth")
    return {
        "machine": {"text": str(machine), "gflops": machine.gflops, "levels": [asdict(one) for one in machine.levels]},
        "seconds": profile.seconds,
        "kernels": [
            {
                name: getattr(row, name)
                for name in (*keep, "percent_of_roof", "bound", "kernel", "count", "flops", "bytes")
            }
            for row in profile.kernels
        ],
        "calls": [{"kernel": row.kernel, "seconds": row.seconds, "count": row.count} for row in profile.rows],
    }
