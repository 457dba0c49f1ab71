"""The table of layers (docs/layers.toml), its picture in the README, and the imports of the code to hold against it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE: dict[str, dict[str, object]] = tomllib.loads((ROOT / "docs" / "layers.toml").read_text())
ROOMS = tuple(TABLE)
BEGIN, END = "<!-- layers: written by docs/generate.py -->", "<!-- /layers -->"
_DOTTED = re.compile(rf"\bmlc\.({'|'.join(ROOMS)})\b")


@dataclass(frozen=True)
class Import:
    """One import of a room: the file, the line, and the room or the module of mlc that is imported."""

    path: Path
    line: int
    target: str

    @property
    def room(self) -> str:
        """The room that imports."""
        return self.path.parts[0]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.room} imports mlc.{self.target}"


def allowed(room: str) -> set[str]:
    """The rooms that a room may import."""
    imports = TABLE[room]["imports"]
    assert isinstance(imports, list)
    return {room, *imports}


def imports() -> Iterator[Import]:
    """Every import of a room by another in the source: statements, and text of the form `mlc.room.module`."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for line, target in sorted(_targets(tree)):
                yield Import(path.relative_to(ROOT), line, target)


def _targets(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, room) of each import and of each mention in a string that is no docstring."""
    docs = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="mlc"):
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom(module=str(module)) if module.startswith("mlc."):
                yield node.lineno, module.split(".")[1]
            case ast.Import():
                parts = [alias.name.split(".") for alias in node.names]
                yield from ((node.lineno, (*part, "")[1]) for part in parts if part[0] == "mlc")
            case ast.Constant(value=str(text)) if id(node) not in docs:
                yield from ((node.lineno, match[1]) for match in _DOTTED.finditer(text))


def _has_docstring(node: ast.AST) -> bool:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


def level(room: str) -> int:
    """The length of the longest chain of imports below a room."""
    return 1 + max((level(other) for other in allowed(room) - {room}), default=-1)


def picture() -> str:
    """The rooms by level, the ground last: a room imports rooms of lines below its own only."""
    lines: list[str] = []
    for number in range(level("tools"), -1, -1):
        rooms = [room for room in ROOMS if level(room) == number]
        lines += [f" {room:<11}{TABLE[room]['holds']}" for room in rooms]
        if number:
            lines.append(" " + "-" * 9)
    return "\n".join(lines)


def section() -> str:
    """The README's section: the picture, then who may import whom."""
    rows = ["| room | may import |", "|---|---|"]
    for room in reversed(ROOMS):
        others = [f"`{other}`" for other in ROOMS if other in allowed(room) - {room}]
        rows.append(f"| [`{room}/`]({room}) | {', '.join(others) or 'nothing of mlc'} |")
    return f"{BEGIN}\n```\n{picture()}\n```\n\n" + "\n".join(rows) + f"\n{END}"


def drawn(readme: str) -> str:
    """The README with the section as the table has it now."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + section() + after
