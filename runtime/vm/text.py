"""The text of a vm program: what `exe.disassemble()` and `mlc inspect --vm` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from mlc.runtime.sizes import text
from mlc.runtime.vm.encoding import Reader
from mlc.runtime.vm.instructions import KINDS, NUMBERS, Instruction, read_code
from mlc.runtime.vm.program import VERSION, decoded
from mlc.support.dtypes import dtype_of


def disassembled(data: bytes) -> str:
    """The text of bytecode; BadBytecode if it is none."""
    program = decoded(data)
    lines = [f"vm program '{program['name']}', version {VERSION}"]
    for what in ("inputs", "outputs"):
        lines += [f"{what[:-1]} {name}: {_shape(shape)} {_type(dtype)}" for name, shape, dtype in program[what]]
    for number, function in enumerate(program["functions"]):
        kind = "open function" if function["open"] else "function"
        wants = f", by the values of {', '.join(f'r{k}' for k in function['wants'])}" if function["wants"] else ""
        lines += ["", f"{kind} {number} '{function['name']}'{wants}"]
        for key, body in function["bodies"]:
            lines += [f"  for {_key(key)}:"] if key is not None else []
            lines += _body(body, program["functions"], program["segments"])
    for number, segment in enumerate(program["segments"]):
        lines += ["", *_segment(number, segment)]
    return "\n".join(lines) + "\n"


def _shape(shape: Sequence[Any] | None) -> str:
    return "any shape" if shape is None else "x".join(map(str, shape)) or "scalar"


def _type(dtype: str) -> str:
    return "any type" if dtype == "any" else dtype


def _key(key: Sequence[Any]) -> str:
    """The arguments that a body is for."""
    return ", ".join(_argument(*one) for one in key[1:]) or "no arguments"


def _argument(kind: Any, content: Any) -> str:
    if kind is None:
        return "nothing"
    if kind and isinstance(kind[0], str):
        dtype, shape = kind
        said = f"{dtype}[{', '.join(map(str, shape))}]"
        return said if content is None else f"{said} = {_content(content, dtype)}"
    return f"[{', '.join(_argument(one, None) for one in kind)}]"


def _content(content: bytes, dtype: str) -> str:
    """The values of an argument."""
    values = np.frombuffer(content, dtype_of(dtype))
    return np.array2string(values, threshold=8, max_line_width=80).replace("\n", "")


def _body(body: Mapping[str, Any], functions: Sequence[Any], segments: Sequence[Any]) -> list[str]:
    def named(name: str, what: int) -> str:
        if name == "run":
            number = body["segments"][what]
            return f"segment {number} '{segments[number]['name']}'"
        return f"{what} '{functions[what]['name']}'"

    return _lines(read_code(Reader(body["code"])), named)


def _segment(number: int, segment: Mapping[str, Any]) -> list[str]:
    facts, kernels = segment["facts"], segment["kernels"]
    symbols = [f"{name}: {low} to {high}" for name, low, high, _ in facts.get("symbols") or ()]
    lines = [f"segment {number} '{segment['name']}', workspace {facts['workspace_bytes']} bytes"]
    lines += [f"  symbol {symbol}" for symbol in symbols]
    for k, value in enumerate(facts["values"]):
        index = f" {value['index']}" if "index" in value else ""
        buffer = f" buffer {value['buffer']}" if "buffer" in value else ""
        rows = f" rows {value['rows']}" if "rows" in value else ""
        lines.append(f"  v{k} = {value['storage']}{index}{buffer} + {text(value['offset'])}{rows}")

    def named(name: str, what: int) -> str:
        return f"@{kernels[what]}" if name == "call" else f"loop {what}"

    return [*lines, *_lines(read_code(Reader(segment["code"])), named)]


def _lines(code: Sequence[Instruction], named: Any) -> list[str]:
    width = len(str(len(code)))
    lines: list[str] = []
    for at, (name, *operands) in enumerate(code):
        kinds = KINDS[NUMBERS[name]].operands
        shown = [_operand(name, kind, one, named) for kind, one in zip(kinds, operands, strict=True)]
        lines.append(f"  {at:{width}}  {name} {', '.join(shown)}".rstrip())
    return lines


def _operand(name: str, kind: str, operand: Any, named: Any) -> str:
    if kind in "RV":
        letter = "r" if kind == "R" else "v"
        return f"({', '.join(f'{letter}{one}' for one in operand)})"
    if kind == "n":
        return _number(operand)
    return {"r": f"r{operand}", "v": f"v{operand}", "t": f"-> {operand}"}.get(kind) or named(name, operand)


def _number(number: Any) -> str:
    """A number of the code."""
    if isinstance(number, dict):
        ((kind, what),) = cast("dict[str, Any]", number).items()
        return str(text(what)) if kind == "size" else f"load v{what}" if kind == "load" else f"iteration {what}"
    if not isinstance(number, list):
        return f"{len(number)} bytes" if isinstance(number, bytes) else str(number)
    items = cast("list[Any]", number)
    if len(items) == 3 and items[0] in _SIGNS:
        return f"({_number(items[1])} {items[0]} {_number(items[2])})"
    return f"[{', '.join(map(_number, items))}]"


_SIGNS = ("+", "-", "*", "min", "max", "and", "<")

__all__ = ["disassembled"]
