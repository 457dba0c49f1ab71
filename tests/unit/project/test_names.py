"""Names mean one thing: no public class name, and no vague constant, stands for two things in the rooms."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = sorted(link.name for link in (ROOT / "mlc").iterdir() if link.is_symlink())

VAGUE = ("FEW", "MANY", "SMALL", "LARGE")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def is_operation(module: str, node: ast.ClassDef) -> bool:
    """Whether a class is an operation of a dialect, which the dialect's name qualifies."""
    return module.startswith("dialects/") and node.name.endswith("Op")


def test_no_public_class_name_stands_for_two_classes():
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_operation(module, node):
                found[node.name].append(module)
    assert len(found) > 300
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_no_vague_constant_has_two_values():
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and target.id.strip("_") in VAGUE:
                        found[target.id.strip("_")][module] = ast.unparse(node.value)
    twice = {name: values for name, values in found.items() if len(set(values.values())) > 1}
    assert twice == {}
