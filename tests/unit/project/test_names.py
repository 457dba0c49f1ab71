"""Names mean one thing: no public class name, and no vague constant, stands for two things in the rooms."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = sorted(link.name for link in (ROOT / "mlc").iterdir() if link.is_symlink())

# Names that still stand for two classes. The list only gets shorter.
TWICE = {
    "Access", "Executable", "Group", "InlinePass", "InterpreterError", "Kernel", "Known", "Level", "Machine", "Node",
    "Parts", "Place", "Problem", "Program", "Sizes", "Stage", "Step", "Symbols", "Window", "Work",
}  # fmt: skip
VAGUE = ("FEW", "MANY", "SMALL", "LARGE")
# The files in which these names still stand. The list only gets shorter.
STILL_VAGUE = {
    "dialects/graph/base.py",
    "frontends/onnx/ops/indexing.py",
    "frontends/torch/guards.py",
    "lowering/graph_to_te/extern/kernels.py",
    "lowering/graph_to_te/extern/order.py",
    "lowering/loop_to_llvm/prefetch.py",
    "passes/graph/fuse_ops/mlc_rules.py",
    "passes/loop/partition.py",
    "passes/loop/promote_tiles.py",
    "schedules/attention.py",
    "validation/plan_places.py",
}


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
    assert {name: where for name, where in found.items() if len(where) > 1 and name not in TWICE} == {}


def test_no_vague_constant_has_two_values():
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and target.id.strip("_") in VAGUE:
                        found[target.id.strip("_")][module] = ast.unparse(node.value)
    twice = {name: values for name, values in found.items() if len(set(values.values())) > 1}
    assert {module for values in twice.values() for module in values} <= STILL_VAGUE, twice
