"""The code of a segment from the description of @main in a model.json: its calls and copies, branches and loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlc.runtime.vm.instructions import Instruction
from mlc.runtime.vm.program import SegmentCode

_FACTS = (
    "inputs", "outputs", "counted", "symbols", "from_0", "buffers", "workspace_bytes",
    "kernel_workspace_bytes", "kernel_rooms", "scratch_bytes", "functions",
)  # fmt: skip


def segment_of(name: str, model: Mapping[str, Any], groups: Sequence[Any] | None = None) -> SegmentCode:
    """The segment that a compiled model is; `groups` says how its outputs become registers (default: each one)."""
    writer = _CodeWriter(model)
    if "program" in model:
        writer.items(model["program"])
    else:
        for node in range(len(model["nodes"])):
            writer.call(node)
        for source, target, size in model["copies"]:
            writer.code.append(("copy", source, target, _number(size)))
    writer.code.append(("ret", []))
    facts = {fact: model[fact] for fact in _FACTS if fact in model}
    outputs = len(model["outputs"]) - len(model.get("counted", ()))
    facts["groups"] = ["tensor"] * outputs if groups is None else list(groups)
    facts["planned_bytes"] = model["plan"]["bytes"]
    facts["values"] = [{k: v for k, v in value.items() if k not in ("shape", "layout")} for value in model["values"]]
    facts["shapes"] = _shapes(model) if model.get("symbols") else []
    return SegmentCode(name, writer.kernels, writer.code, facts)


def _shapes(model: Mapping[str, Any]) -> list[Any]:
    """The distinct shapes of symbolic sizes on the way."""
    shapes = {repr(value["shape"]): value["shape"] for value in model["values"]}
    return [shape for shape in shapes.values() if any(not isinstance(size, int) for size in shape)]


def _number(size: Any) -> Any:
    """A number of the code from a size."""
    return size if isinstance(size, int) else {"size": size}


class _CodeWriter:
    """Writes items one after another, with jumps in the place of their nesting."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.nodes: Sequence[Mapping[str, Any]] = model["nodes"]
        self.kernels: list[str] = []
        self.code: list[Instruction] = []

    def call(self, node: int) -> None:
        """The call of a node."""
        facts = self.nodes[node]
        if facts["kernel"] not in self.kernels:
            self.kernels.append(facts["kernel"])
        sizes = [_number(size) for size in facts.get("sizes", ())]
        operands = [*facts["inputs"], *facts["outputs"]]
        self.code.append(("call", self.kernels.index(facts["kernel"]), operands, sizes))

    def items(self, items: Sequence[Any]) -> None:
        """Items in order."""
        for kind, *rest in items:
            if kind == "call":
                self.call(rest[0])
            elif kind == "if":
                self._branch(*rest)
            elif kind in ("for", "while"):
                self._loop(kind, *rest)
            else:
                self.code.append((kind, *rest))

    def _branch(self, number: Any, then: Sequence[Any], other: Sequence[Any]) -> None:
        test = self._hole()
        self.items(then)
        end = self._hole()
        self.code[test] = "unless", number, len(self.code)
        self.items(other)
        self.code[end] = "goto", len(self.code)

    def _loop(self, kind: str, loop: int, number: Any, body: Sequence[Any]) -> None:
        self.code.append(("count", loop, number if kind == "for" else None))
        test = self._hole()
        self.items(body)
        self.code.append(("next", loop, test))
        after = len(self.code)
        self.code[test] = ("until", loop, after) if kind == "for" else ("unless", number, after)

    def _hole(self) -> int:
        """The index of an instruction that is written later."""
        self.code.append(())
        return len(self.code) - 1


__all__ = ["segment_of"]
