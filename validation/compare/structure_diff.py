"""
How two modules differ as text: functions that only one has, and what differs in those that both have.

Functions are matched by kind and name, then by their source nodes, then by their structure, then by the name without
its hash. In a pair of functions operations are aligned by what they are (name, attributes, types), and the values of
the second function get the names of those that they are aligned with: numbers of SSA values are no difference, another
operand is one. The order of attributes, the hashes of functions and the names of matched kernels are none either.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from mlc.dialects import sched
from mlc.dialects.attributes import GRAPH_HASH
from mlc.validation.compare.trace import node_of
from mlc.validation.signature import symbol_name

CONTEXT = 3
"""Lines around a difference that are shown."""
_HASH = re.compile(r"_[0-9a-f]{8}$")
_HIDDEN = (GRAPH_HASH, "sym_name")
"""Attributes that do not count when operations are aligned."""

Pairs = dict[Operation, Operation]
"""Operations of the first module -> those of the second that they are aligned with."""


@dataclass(frozen=True)
class FunctionDifference:
    """A function that differs: `a` or `b` is empty if only one module has it."""

    kind: str
    a: str
    b: str
    nodes: tuple[str, ...] = ()
    """The source nodes of a function that only one module has."""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Operations whose numbers differ: name -> in the first, in the second."""
    lines: tuple[str, ...] = ()
    """A unified diff."""

    def __str__(self) -> str:
        if not self.a or not self.b:
            where, name = ("the first", self.a) if self.a else ("the second", self.b)
            origin = f", from {', '.join(self.nodes[:3])}{' and others' * (len(self.nodes) > 3)}" if self.nodes else ""
            return f"only in {where}: @{name} ({self.kind}{origin})"
        name = f"@{self.a}" if self.a == self.b else f"@{self.a} and @{self.b}"
        counts = ", ".join(f"{op} {a} -> {b}" for op, (a, b) in self.counts.items())
        return f"differs: {name} ({self.kind}){': ' * bool(counts)}{counts}"


@dataclass
class StructureDifference:
    """What differs between two modules; `pairs` has the operations that were aligned, whether they differ or not."""

    functions: list[FunctionDifference] = field(default_factory=list[FunctionDifference])
    pairs: Pairs = field(default_factory=dict[Operation, Operation])
    same: int = 0
    """The number of functions that do not differ."""
    nodes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The source nodes that only the first has, and only the second; none where a module names no nodes at all."""


def compare_structure(a: ModuleOp, b: ModuleOp) -> StructureDifference:
    """The differences between two modules, in the order of the functions of the first, then of the second."""
    first, second = _functions(a), _functions(b)
    matched = _match(a, b, first, second)
    renamed = {key[1]: other[1] for other, key in matched.items()}
    found = StructureDifference()
    for key, op in first.items():
        if key not in matched:
            found.functions.append(FunctionDifference(key[0], key[1], "", _nodes(a, op)))
            continue
        other = second[matched[key]]
        pairs = align(op, other)
        found.pairs |= pairs
        lines = text_diff(op, other, pairs, renamed)
        if lines:
            counts = _counts(op, other)
            found.functions.append(FunctionDifference(key[0], key[1], matched[key][1], (), counts, tuple(lines)))
        else:
            found.same += 1
    taken = set(matched.values())
    for key, op in second.items():
        if key not in taken:
            found.functions.append(FunctionDifference(key[0], "", key[1], _nodes(b, op)))
    left, right = (_all_nodes(module) for module in (a, b))
    if left and right:
        found.nodes = tuple(n for n in left if n not in right), tuple(n for n in right if n not in left)
    return found


def _all_nodes(module: ModuleOp) -> dict[str, None]:
    """The source nodes of a module, in order."""
    names = (name for op in module.walk() for name in node_of(op).split(", "))
    return dict.fromkeys(filter(None, names))


# --- functions ---------------------------------------------------------------------------------------------------

Key = tuple[str, str]
"""The operation's name and its symbol."""


def _functions(module: ModuleOp) -> dict[Key, Operation]:
    found: dict[Key, Operation] = {}
    for number, op in enumerate(module.body.block.ops):
        name = op.kernel_name if isinstance(op, sched.ScheduleOp) else symbol_name(op)
        found[op.name, name or f"operation {number}"] = op
    return found


def _match(a: ModuleOp, b: ModuleOp, first: Mapping[Key, Operation], second: Mapping[Key, Operation]) -> dict[Key, Key]:
    """Key in the first -> key in the second."""
    matched = {key: key for key in first if key in second}
    finders: list[Callable[[ModuleOp, Key, Operation], object]] = [
        lambda module, key, op: (nodes := _nodes(module, op)) and (nodes, _outputs(op)),
        lambda module, key, op: _structure(op),
        lambda module, key, op: _HASH.sub("", key[1]),
    ]
    for finder in finders:
        left = _by(a, first, matched, finder)
        right = _by(b, second, set(matched.values()), finder)
        for feature, keys in left.items():
            others = right.get(feature, [])
            if len(keys) == len(others) == 1:
                matched[keys[0]] = others[0]
    return matched


def _by(
    module: ModuleOp,
    functions: Mapping[Key, Operation],
    taken: Iterable[Key],
    finder: Callable[[ModuleOp, Key, Operation], object],
) -> dict[object, list[Key]]:
    """The functions that are not matched yet, by kind and a feature that is not empty."""
    found: dict[object, list[Key]] = {}
    for key, op in functions.items():
        if key not in taken and (feature := finder(module, key, op)):
            found.setdefault((key[0], feature), []).append(key)
    return found


def _nodes(module: ModuleOp, func: Operation) -> tuple[str, ...]:
    """The source nodes of a function: of the calls of it, or of its operations."""
    name = symbol_name(func)
    names: dict[str, None] = {}
    for op in module.walk():
        callee = op.properties.get("callee")
        if callee is not None and str(callee) == f"@{name}":
            names |= dict.fromkeys(filter(None, [node_of(op)]))
    names |= dict.fromkeys(filter(None, (node_of(op) for op in func.walk())))
    return tuple(names)


def _outputs(func: Operation) -> str:
    """The types of a function's results."""
    t = func.properties.get("function_type")
    return str(t.outputs) if isinstance(t, FunctionType) else ""


def _structure(func: Operation) -> str:
    """The text of a function without names."""
    copy = func.clone()
    _name_all(copy, {}, set(), plain=True)
    if isinstance(copy.properties.get("sym_name"), StringAttr):
        copy.properties["sym_name"] = StringAttr("_")
    return "\n".join(_text(copy))


def _counts(a: Operation, b: Operation) -> dict[str, tuple[int, int]]:
    """The operations whose numbers differ."""
    left, right = (Counter(op.name for op in func.walk()) for func in (a, b))
    return {name: (left[name], right[name]) for name in {**left, **right} if left[name] != right[name]}


# --- operations --------------------------------------------------------------------------------------------------


def align(a: Operation, b: Operation) -> Pairs:
    """The operations of two functions that are the same, and between these others that stand for each other."""
    left, right = list(a.walk()), list(b.walk())
    keys = [_key(op) for op in left], [_key(op) for op in right]
    pairs: Pairs = {a: b}
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs |= dict(zip(left[i:i_end], right[j:j_end], strict=True))
        elif tag == "replace":
            for one, other in _stand_in(left[i:i_end], right[j:j_end]):
                pairs.setdefault(one, other)
    return pairs


def _stand_in(left: Sequence[Operation], right: Sequence[Operation]) -> Iterator[tuple[Operation, Operation]]:
    """Pairs of operations of the same name; between them equally many whose results have the same types."""
    names = [op.name for op in left], [op.name for op in right]
    at, other = 0, 0
    for block in difflib.SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        before, after = left[at : block.a], right[other : block.b]
        if [_result_types(op) for op in before] == [_result_types(op) for op in after]:
            yield from zip(before, after, strict=True)
        at, other = block.a + block.size, block.b + block.size
        yield from zip(left[block.a : at], right[block.b : other], strict=True)


def _result_types(op: Operation) -> list[str]:
    return [str(result.type) for result in op.results]


def _key(op: Operation) -> str:
    """What an operation is, apart from the values that it reads."""
    attributes = sorted(f"{n}={v}" for n, v in {**op.properties, **op.attributes}.items() if n not in _HIDDEN)
    types = [str(v.type) for v in (*op.operands, *op.results)]
    return f"{op.name} {len(op.operands)} {attributes} {types}"


def text_diff(a: Operation, b: Operation, pairs: Pairs, renamed: Mapping[str, str]) -> list[str]:
    """A unified diff of two functions, empty if they are the same; `renamed`: symbols of `b` -> their names in `a`."""
    copy_a, copies_a = _clone(a)
    copy_b, copies_b = _clone(b)
    names: dict[SSAValue, str] = {}
    _name_all(copy_a, {}, set())
    for one, other in pairs.items():
        if one in copies_a and other in copies_b:
            for x, y in zip(_values(copies_a[one]), _values(copies_b[other]), strict=False):
                assert x.name_hint is not None
                names[y] = x.name_hint
    _name_all(copy_b, names, {v.name_hint or "" for op in copy_a.walk() for v in _values(op)})
    other = [_with_symbols(line, renamed) for line in _text(copy_b)]
    lines = list(difflib.unified_diff(_text(copy_a), other, lineterm="", n=CONTEXT))[2:]
    return ["..." if line.startswith("@@") else line for line in lines][1:]


def _clone(op: Operation) -> tuple[Operation, dict[Operation, Operation]]:
    """A copy, and for each operation in it its copy."""
    copy = op.clone()
    return copy, dict(zip(op.walk(), copy.walk(), strict=True))


def _values(op: Operation) -> list[SSAValue]:
    """The values that an operation defines: its results, and the arguments of its blocks."""
    return [*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)]


def _name_all(func: Operation, names: Mapping[SSAValue, str], taken: set[str], plain: bool = False) -> None:
    """
    Give each value its name in `names`, or else one that is not taken: its own, unless `plain`, or a number.

    Attributes are sorted, and hashes dropped.
    """
    used, number, end = set(taken), 0, ".b" * bool(taken)
    for op in func.walk():
        for value in _values(op):
            wanted = names.get(value)
            if wanted is None and value.name_hint and not plain:
                wanted = next((n for n in (value.name_hint, f"{value.name_hint}{end}") if n not in used), None)
            while wanted is None or (value not in names and wanted in used):
                wanted = f"v{number}{end}"
                number += 1
            used.add(wanted)
            value.name_hint = wanted
        op.attributes = {name: op.attributes[name] for name in sorted(op.attributes) if name != GRAPH_HASH}


def _text(op: Operation) -> list[str]:
    stream = StringIO()
    Printer(stream).print_op(op)
    return stream.getvalue().splitlines()


def _with_symbols(line: str, renamed: Mapping[str, str]) -> str:
    """A line with the symbols of the second module replaced by their names in the first."""
    return re.sub(r"@([\w.$-]+)", lambda m: f"@{renamed.get(m[1], m[1])}", line) if "@" in line else line


__all__ = ["FunctionDifference", "Pairs", "StructureDifference", "align", "compare_structure", "text_diff"]
