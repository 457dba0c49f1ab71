"""
The callback by which the vm compiles: the code of a part of an ONNX graph for given arguments.

    import with these shapes ----> a segment: run, ret
        a node needs a value
            of small integer arguments: their values are wanted, and decide the code from now on
            there are nodes before it:  run what they are, then resolve the rest, which begins with the node
            it is an If or a Loop:      code that branches or loops, and resolves the bodies
            it depends on arguments:    their values are wanted
            else the error stands
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import onnx

from mlc.driver.vm.onnx_functions import Argument, OnnxFunction, OpenAxes
from mlc.frontends.common.model import Model
from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.structured import structure_of
from mlc.runtime.vm.instructions import Instruction
from mlc.runtime.vm.program import Body, Function
from mlc.runtime.vm.segment import Segment
from mlc.support.errors import UserError

SMALL = 64
"""Elements of the largest integer argument by whose values code is compiled before anything else is tried."""
Compile = Callable[[Model, str, "Sequence[Any] | None"], Segment]
"""Compiles a model to a segment: the model, its name, and how its outputs become registers."""


class OnnxResolver:
    """Resolves functions; `functions` are those of the machine, to which the parts that are found are added."""

    def __init__(self, compile: Compile, functions: list[Function]) -> None:
        self._compile, self.functions = compile, functions

    def resolve(self, function: Function, arguments: Sequence[Argument], wanted: frozenset[int]) -> Body | set[int]:
        """The code of a function for these arguments, or the arguments whose values must be known as well."""
        template: OnnxFunction = function.template
        try:
            return self._whole(function.name, template, arguments, wanted)
        except NeedsValues as error:
            return self._divided(function.name, template, arguments, wanted, error)

    def _whole(
        self,
        name: str,
        template: OnnxFunction,
        arguments: Sequence[Argument],
        wanted: frozenset[int],
        open_axes: OpenAxes | None = None,
    ) -> Body:
        """A function as one segment; NeedsValues where it cannot be one."""
        count, code = len(template.inputs), _Code(template.inputs)
        results = code.new(template.outputs)
        segment = self._segment(name, template, arguments, wanted, open_axes)
        code.instructions += [("run", 0, list(range(count)), results), ("ret", results)]
        return Body(code.count, code.instructions, [segment])

    def generalized(self, function: Function, arguments: Sequence[Argument], open_axes: OpenAxes) -> Body | None:
        """The code of a function with symbolic sizes at these axes; None where it must know them."""
        try:
            return self._whole(f"{function.name} of open sizes", function.template, arguments, frozenset(), open_axes)
        except UserError:
            return None

    def _segment(
        self,
        name: str,
        template: OnnxFunction,
        arguments: Sequence[Argument],
        wanted: frozenset[int],
        open_axes: OpenAxes | None = None,
    ) -> Segment:
        model = template.load(arguments, wanted, open_axes)
        structure = structure_of(model.main.attributes)
        parts = [structure.get(output, output) for output in template.outputs]
        groups = ["tensor" if isinstance(p, str) else None if p is None else len(p) for p in parts]
        return self._compile(model, name, groups)

    def _divided(
        self,
        name: str,
        template: OnnxFunction,
        arguments: Sequence[Argument],
        wanted: frozenset[int],
        error: NeedsValues,
    ) -> Body | set[int]:
        owners = {part: k for k, a in enumerate(arguments) for part in template.tensors(k, a)}
        new = {owners[source] for source in error.inputs if source in owners} - wanted
        node = template.nodes[error.node] if error.node >= 0 else None
        control = node is not None and node.op_type in ("If", "Loop") and node.domain in ("", "ai.onnx")
        if new and not control and all(map(_is_small, (arguments[k] for k in new))):
            return new
        if node is None:
            raise error
        if error.node > 0:
            return self._split(name, template, arguments, wanted, error.node)
        if control:
            return (self._branch if node.op_type == "If" else self._loop)(name, template, node)
        if new:
            return new
        raise error

    def _split(
        self, name: str, template: OnnxFunction, arguments: Sequence[Argument], wanted: frozenset[int], at: int
    ) -> Body:
        """The nodes before one as a segment, and the others as a function to be resolved."""
        first, rest = template.divided(at)[0], template.part("rest", at)
        code = _Code(template.inputs)
        segments: list[Segment] = []
        if first.outputs:
            places = [template.inputs.index(n) for n in first.inputs]
            kept = frozenset(k for k, place in enumerate(places) if place in wanted)
            own = [arguments[place] for place in places]
            segments = [self._segment(f"{name} before {_title(rest.nodes[0])}", first, own, kept)]
            code.instructions.append(("run", 0, places, code.new(first.outputs)))
        self._resolve(code, template, ("rest", at), rest, f"{_root(name)} from {_title(rest.nodes[0])}")
        code.instructions.append(("ret", code.at(template.outputs)))
        return Body(code.count, code.instructions, segments)

    def _resolve(
        self, code: _Code, template: OnnxFunction, key: tuple[str, int], part: OnnxFunction, name: str
    ) -> None:
        """Code that resolves a part; its outputs get registers. A part without nodes gives nothing."""
        if not part.outputs:
            return
        given = code.at(part.inputs)
        code.instructions.append(("resolve", self._number(template, key, part, name), given, code.new(part.outputs)))

    def _number(self, template: OnnxFunction, key: tuple[str, int], part: OnnxFunction, name: str) -> int:
        """The number of the function that a part is; `key` is its kind and the node where it begins."""
        if key not in template.parts:
            parent = next(k for k, function in enumerate(self.functions) if function.template is template)
            template.parts[key] = len(self.functions)
            self.functions.append(Function(name, template=part, origin=(parent, *key)))
        return template.parts[key]

    def _after(self, code: _Code, name: str, template: OnnxFunction, node: onnx.NodeProto) -> None:
        """Code for the nodes behind a first one, whose outputs are in registers, and the end of the function."""
        rest = template.part("after")
        if rest.outputs:
            self._resolve(code, template, ("after", 0), rest, f"{_root(name)} after {_title(node)}")
        code.instructions.append(("ret", code.at(template.outputs)))

    def _branch(self, name: str, template: OnnxFunction, node: onnx.NodeProto) -> Body:
        """An If whose branches are resolved when they are taken."""
        code = _Code(template.inputs)
        code.constants(template, [*node.input])
        results = code.new([n for n in node.output if n])
        test = code.hole()
        holes: list[int] = []
        starts: list[int] = []
        for key in ("then_branch", "else_branch"):
            starts.append(len(code.instructions))
            part = template.part(key)
            number = self._number(template, (key, 0), part, f"{_root(name)}/{_title(node)}/{key}")
            places = [code.fresh() for _ in part.outputs]
            code.instructions.append(("resolve", number, code.at(part.inputs), places))
            used = (place for place, n in zip(places, node.output, strict=False) if n)
            code.instructions += [("move", to, of) for to, of in zip(results, used, strict=True)]
            holes.append(code.hole())
        for hole in holes:
            code.instructions[hole] = "goto", len(code.instructions)
        code.instructions[test] = "iffalse", code.at([node.input[0]])[0], starts[1]
        self._after(code, name, template, node)
        return Body(code.count, code.instructions, [])

    def _loop(self, name: str, template: OnnxFunction, node: onnx.NodeProto) -> Body:
        """A Loop whose body is resolved at each iteration, for the shapes that it then has."""
        graph = next(a.g for a in node.attribute if a.name == "body")
        limit, condition, *carried = [*node.input, ""][: max(2, len(node.input))]
        code = _Code(template.inputs)
        code.constants(template, [*node.input])
        states = [code.fresh() for _ in carried]
        code.instructions += [("move", to, of) for to, of in zip(states, code.at(carried), strict=True)]
        number, test = code.fresh(), code.fresh()
        code.instructions.append(("const", number, 0))
        code.instructions.append(("move", test, code.at([condition])[0]) if condition else ("const", test, True))
        part = template.part("body")
        rows = part.outputs[1 + len(carried) :]
        lists = [code.fresh() for _ in rows]
        code.instructions += [("list", place, []) for place in lists]
        start = code.hole() if limit else len(code.instructions)
        ends = code.hole()
        function = self._number(template, ("body", 0), part, f"{_root(name)}/{_title(node)}/body")
        captured = code.at(part.inputs[2 + len(carried) :])
        stacked = [code.fresh() for _ in rows]
        given, results = [number, test, *states, *captured], [test, *states, *stacked]
        code.instructions.append(("resolve", function, given, results))
        code.instructions += [("append", into, row) for into, row in zip(lists, stacked, strict=True)]
        code.instructions += [("increment", number, number), ("goto", start)]
        end = len(code.instructions)
        if limit:
            code.instructions[start] = "unlessless", number, code.at([limit])[0], end
        code.instructions[ends] = "iffalse", test, end
        infos = graph.output[1 + len(carried) :]
        code.instructions += [
            ("stack", row, of, _declared_row(i)) for row, of, i in zip(stacked, lists, infos, strict=True)
        ]
        for output, place in zip(node.output, [*states, *stacked], strict=False):
            code.registers |= {output: place} if output else {}
        self._after(code, name, template, node)
        return Body(code.count, code.instructions, [])


class _Code:
    """Code that is being written: its instructions, and the registers of names."""

    def __init__(self, inputs: Sequence[str]) -> None:
        self.instructions: list[Instruction] = []
        self.registers = {name: k for k, name in enumerate(inputs)}
        self.count = len(inputs)

    def fresh(self) -> int:
        """A new register."""
        self.count += 1
        return self.count - 1

    def new(self, names: Sequence[str]) -> list[int]:
        """New registers for names."""
        for name in names:
            self.registers[name] = self.fresh()
        return self.at(names)

    def at(self, names: Sequence[str]) -> list[int]:
        """The registers of names."""
        return [self.registers[name] for name in names]

    def hole(self) -> int:
        """The index of an instruction that is written later."""
        self.instructions.append(())
        return len(self.instructions) - 1

    def constants(self, template: OnnxFunction, names: Sequence[str]) -> None:
        """Give a register to each name that has none and is not empty: these names are constants of the template."""
        from mlc.frontends.onnx import narrow

        for name in dict.fromkeys(names):
            if name and name not in self.registers:
                place = f"{template.source.name}: initializer '{name}'"
                array = narrow.initializer(template.constants[name], place, template.source.external).array
                value = [array.dtype.name, list(array.shape), array.tobytes()]
                self.instructions.append(("const", self.fresh(), value))
                self.registers[name] = self.count - 1


def _is_small(argument: Argument) -> bool:
    """Whether an argument is of the kind that says sizes and axes: few whole numbers, or truth values."""
    return not isinstance(argument, list) and argument.dtype.kind in "iub" and argument.size <= SMALL


def _title(node: onnx.NodeProto) -> str:
    """A node in the name of a function."""
    return node.name or f"{node.op_type}:{node.output[0] if node.output else ''}"


def _root(name: str) -> str:
    """The name of a function without what it is a part of, so that names stay short."""
    return name.partition(" ")[0].partition("/")[0]


def _declared_row(info: onnx.ValueInfoProto) -> Any:
    """The declared [dtype, shape] of a row; None if it is not declared."""
    declared = info.type.tensor_type
    if not declared.HasField("shape") or not declared.elem_type:
        return None
    return [dtype_of(declared.elem_type, info.name).name, [d.dim_value for d in declared.shape.dim]]


def owned(segment: Segment, remove: Callable[[], object]) -> Segment:
    """The segment, which removes its files when it is collected."""
    weakref.finalize(segment, remove)
    return segment


__all__ = ["OnnxResolver", "owned"]
