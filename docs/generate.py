"""
Write the parts of the documentation that come from the code.

    python docs/generate.py            docs/dialects/*.md, docs/operators.md; what the commands on the other pages print
    python docs/generate.py --check    write nothing; exit with 1 if something is out of date
"""

import argparse
import ast
import inspect
import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from blocks import ROOT, run_page
from layers import drawn
from operators import page as operators_page

from mlc.dialects import DIALECTS, attributes
from mlc.targets.target import native_target

PAGES = ROOT / "docs" / "dialects"
OPERATORS = ROOT / "docs" / "operators.md"
WITH_COMMANDS = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "first-pass",
            "debugging",
            "loop-pass",
            "te",
            "interpreters",
            "projects",
            "own-operators",
            "editing",
            "devices",
            "levels",
            "schedules",
            "profiling",
            "running-ir",
            "packages",
            "live-schedules",
            "memory",
            "editors",
            "symbolic-shapes",
            "inspect",
            "external-functions",
            "external-compilers",
            "executors",
            "vm",
            "tuning",
        )
    ),
)
TUTORIALS = tuple(sorted((ROOT / "docs" / "tutorials").glob("[0-9]-*.md")))
"""Each is a page of its own."""
COURSE = tuple(sorted((ROOT / "docs" / "course").glob("[0-9]-*.md")))
"""The chapters of the course, in order: each goes on from the files of those before it."""
_FUSION = {
    0: "elementwise",
    1: "broadcast",
    2: "injective",
    3: "reduction",
    4: "out-elementwise-fusable",
    7: "tuple",
    8: "opaque",
}


def pages() -> dict[str, str]:
    """File name -> text of each page, and of their index."""
    texts: dict[str, str] = {}
    rows: list[str] = []
    for name, reference in DIALECTS.items():
        module_name, _, attribute = reference.partition(":")
        module = import_module(module_name)
        dialect = getattr(module, attribute)
        texts[f"{name}.md"] = _page(name, module, dialect)
        count = len(list(dialect.operations))
        rows.append(f"| [{name}]({name}.md) | {count} | {_summary(module)} |")
    index = ["# Dialects", "", _NOTE, "", "| dialect | ops | |", "|---|---|---|", *rows]
    texts["README.md"] = "\n".join(index) + "\n\n" + _discardable() + "\n"
    return texts


def _discardable() -> str:
    """The section on `mlc.dialects.attributes`: each constant's value and the docstring after it."""
    source = Path(inspect.getsourcefile(attributes) or "").read_text()
    lines = ["# Discardable attributes", "", *(inspect.getdoc(attributes) or "").splitlines()]
    body = ast.parse(source).body
    groups = iter(re.findall(r"^# -+ (.+?) -+$", source, re.MULTILINE))
    starts = {number for number, line in enumerate(source.splitlines(), 1) if line.startswith("# ---")}
    for assignment, text in pairwise(body):
        if isinstance(assignment, ast.Assign) and isinstance(text, ast.Expr):
            if assignment.lineno - 2 in starts:
                lines += ["", f"## {next(groups).capitalize()}", "", "| attribute | |", "|---|---|"]
            lines.append(f"| `{ast.literal_eval(assignment.value)}` | {_markdown(ast.literal_eval(text.value))} |")
    return "\n".join(lines)


_NOTE = "Written by `docs/generate.py` from the docstrings: change those, not this page."


def _page(name: str, module: Any, dialect: Any) -> str:
    ops = sorted(dialect.operations, key=lambda op: (op.__module__, _line(op), op.name))
    parts = [f"# The {name} dialect", _NOTE, _markdown(inspect.getdoc(module) or "")]
    rows = [f"| [`{op.name}`](#{_anchor(op.name)}) | {_summary(op)} |" for op in ops]
    parts.append("\n".join(["| op | |", "|---|---|", *rows]))
    parts += [_op(op) for op in ops]
    attributes = list(dialect.attributes)
    if attributes:
        parts.append("# Attributes and types")
        parts += [f"## `{a.name}`\n\n{_markdown(inspect.getdoc(a) or '')}" for a in attributes]
    return "\n\n".join(parts) + "\n"


def _op(op: type[Any]) -> str:
    """One op: its docstring, and its row in the table of properties."""
    parts = [f"## `{op.name}`", _markdown(inspect.getdoc(op) or "")]
    facts = _record(op) if hasattr(op, "declared") else _definition(op)
    if facts:
        parts.append("\n".join(f"- {fact}" for fact in facts))
    return "\n\n".join(parts)


def _record(op: type[Any]) -> list[str]:
    """A graph op's record: operands, attributes, fusion kind."""
    low, high = op.arity
    count = str(low) if low == high else f"{low} to {high}" if high < 1000 else f"{low} or more"
    facts = [f"operands: {count}", f"fusion: {_FUSION[op.kind]} ({op.kind})"]
    for name, attribute in op.declared.items():
        default = "" if attribute.default is None else f", by default `{attribute.default}`"
        facts.append(f"`{name}`: {_markdown(attribute.what)}{default}")
    return facts


def _definition(op: type[Any]) -> list[str]:
    """An op declared with irdl: the names of its operands, results, attributes and regions."""
    definition = op.get_irdl_definition()
    kinds = {
        "operands": [name for name, _ in definition.operands],
        "results": [name for name, _ in definition.results],
        "attributes": [*definition.properties, *definition.attributes],
        "regions": [name for name, _ in definition.regions],
    }
    return [f"{kind}: {', '.join(f'`{name}`' for name in names)}" for kind, names in kinds.items() if names]


def _line(op: type[Any]) -> int:
    """Where an op is declared; one made from a table has no place of its own."""
    try:
        return inspect.getsourcelines(op)[1]
    except (OSError, TypeError):
        return 0


def _summary(thing: Any) -> str:
    """The first sentence of a docstring, in a table's cell."""
    first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
    text = re.split(r"(?<=\.)\s+(?=[A-Z])", first)[0]
    return _markdown(text.split(": `")[0].rstrip(":.")).replace("|", "\\|")


def _anchor(name: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^a-z0-9_-]", "", name.lower())


def _markdown(text: str) -> str:
    """A docstring as Markdown: `<` outside of code does not begin a tag."""
    lines = text.split("\n")
    fenced = in_code = False
    result: list[str] = []
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            line, in_code = _escaped(line, in_code and bool(line))
        result.append(line)
    return "\n".join(result)


def _escaped(line: str, in_code: bool) -> tuple[str, bool]:
    """The line with `<` and `*` escaped outside of backticks, and whether it ends inside of them."""
    parts = line.split("`")
    for index, part in enumerate(parts):
        if (index % 2 == 1) == in_code:
            parts[index] = part.replace("<", "&lt;").replace("*", "\\*")
    return "`".join(parts), in_code != (len(parts) % 2 == 0)


def _example(name: str) -> Any:
    """The module of a file in examples/."""
    spec = spec_from_file_location(Path(name).stem, ROOT / "examples" / name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WIDE_PAGES = ("schedules", "2-gemm", "3-conv2d", "8-schedule")
"""Pages whose schedules keep more vectors in registers than a CPU without AVX-512 has: it warns."""


def lacking(page: Path) -> str:
    """What the code on a page needs and this machine does not have; empty where nothing is missing."""
    native = native_target()
    if page.stem in WIDE_PAGES and native.vector_bits < 512:
        return "its tiles are for vectors of 512 bits, which this CPU lacks"
    if page.stem == "7-intrinsic" and "dpbusd" not in native.instructions:
        return "this CPU lacks avx512vnni"
    if page.stem != "6-blas":
        return ""
    openblas = _example("tutorials/openblas.py")
    return openblas.MISSING if openblas.find() is None else ""


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description="write what the documentation takes from the code")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is out of date")
    check = parser.parse_args().check
    now = {PAGES / name: text for name, text in pages().items()}
    now[OPERATORS] = operators_page()
    readme = drawn((ROOT / "README.md").read_text())
    for pages_of_folder in (*((page,) for page in (*WITH_COMMANDS, *TUTORIALS)), COURSE):
        with TemporaryDirectory(prefix="mlc.") as folder:
            for page in pages_of_folder:
                if missing := lacking(page):
                    print(f"{page.relative_to(ROOT)} is left as it is: {missing}")
                    continue
                text = readme if page == ROOT / "README.md" else page.read_text()
                now[page], differences = run_page(text, Path(folder))
                print(*(f"{page}: {one}" for one in differences), sep="\n", end="\n" if differences else "")
    stale = [page for page, text in now.items() if not page.exists() or page.read_text() != text]
    for page in stale:
        print(f"{page.relative_to(ROOT)} {'is out of date: run python docs/generate.py' if check else 'written'}")
        if not check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(now[page])
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
