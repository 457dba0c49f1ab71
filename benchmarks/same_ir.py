"""
Whether two checkouts compile the benchmark models to the same IR, on the loop and on the llvm level.

    python benchmarks/same_ir.py dump DIRECTORY              # the IR of every model, by the mlc on PYTHONPATH
    python benchmarks/same_ir.py compare BEFORE AFTER        # of two such directories; exit code 1 where they differ

Targets x86-64-v3 and znver5, 1 and 2 threads. Before comparing, locations are removed, SSA values and kernel symbols
are numbered in the order in which they appear, and attributes are renamed by `RENAMED`. A kernel that differs is
named by the model, the level and the source line of its first difference.
"""

import argparse
import gzip
import re
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

TARGETS = ("x86-64-v3", "znver5")
THREADS = (1, 2)
LEVELS = ("loop", "llvm")
RENAMED: dict[str, str] = {}
"""Attributes of kernels: old name -> new name."""

_LOCATION = re.compile(r" loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)")
_VALUE = re.compile(r"%[A-Za-z0-9_$.-]+")
_SYMBOL = re.compile(r"@[A-Za-z0-9_$.-]+")
_HASH = re.compile(r"graph\.hash = \"[0-9a-f]+\"")
_FUNCTION = re.compile(r"^(?:func\.func|loop\.func|llvm\.func|llvm\.mlir\.global)\b", re.MULTILINE)


def dump(directory: Path, names: list[str]) -> None:
    """Write the texts of all models, one compressed file for each model, target, number of threads and level."""
    import models

    from mlc.driver.models.compilation import Compilation
    from mlc.driver.models.compile import load_model
    from mlc.driver.options import Options

    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mlc.") as made:
        for name in names or models.available():
            case = models.case(name, Path(made))
            for target in TARGETS:
                for threads in THREADS:
                    options = Options(target, threads=threads, keep=frozenset(LEVELS))
                    compilation = Compilation(load_model(case.path, case.shapes), options)
                    compilation.write(Path(made))
                    for level in LEVELS:
                        path = directory / f"{name}-{target}-{threads}.{level}.gz".replace(" ", "_")
                        path.write_bytes(gzip.compress(compilation.texts[level].encode(), 1))
                    print(f"{name}, {target}, {threads} threads", flush=True)


def functions(text: str) -> list[tuple[str, str]]:
    """(name, canonical text) of each function, in order."""
    text = _HASH.sub("", _LOCATION.sub("", text))
    for old, new in RENAMED.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}(?= =|[,}}])", new, text)
    symbols: dict[str, str] = {}
    starts = [match.start() for match in _FUNCTION.finditer(text)] + [len(text)]
    found: list[tuple[str, str]] = []
    for start, end in pairwise(starts):
        body = text[start:end]
        name = _SYMBOL.search(body)
        body = _SYMBOL.sub(_numbering("@", symbols), _VALUE.sub(_numbering("%", {}), body))
        found.append((name.group() if name else "", body))
    return found


def _numbering(prefix: str, known: dict[str, str]) -> Callable[[re.Match[str]], str]:
    """A replacement by number, in the order in which names appear."""
    return lambda match: known.setdefault(match.group(), f"{prefix}{len(known)}")


def differences(before: Path, after: Path) -> list[str]:
    """A line for each function that differs between two dumps."""
    lines: list[str] = []
    names = sorted({path.name for directory in (before, after) for path in directory.glob("*.gz")})
    if not names:
        raise SystemExit(f"expected dumps in {before} and {after}, but found none")
    for name in names:
        if not (before / name).exists() or not (after / name).exists():
            lines.append(f"{name}: only in {before if (before / name).exists() else after}")
            continue
        old, new = (functions(gzip.decompress((d / name).read_bytes()).decode()) for d in (before, after))
        if len(old) != len(new):
            lines.append(f"{name}: {len(old)} functions before, {len(new)} after")
        for (old_name, a), (new_name, b) in zip(old, new, strict=False):
            if a != b:
                pairs = zip(a.splitlines(), b.splitlines(), strict=False)
                first = next((pair for pair in pairs if pair[0] != pair[1]), ("(longer)", "(shorter)"))
                lines.append(f"{name}: {old_name} / {new_name}: {first[0].strip()[:120]} | {first[1].strip()[:120]}")
    return lines


def main() -> int:
    """Dump, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    dumping = commands.add_parser("dump", help="write the IR of every model")
    dumping.add_argument("directory", type=Path)
    dumping.add_argument("--model", action="append", default=[], help="only this one (may be repeated)")
    comparing = commands.add_parser("compare", help="compare two dumps")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    args = parser.parse_args()
    if args.command == "dump":
        dump(args.directory, args.model)
        return 0
    found = differences(args.before, args.after)
    print("\n".join(found) or "the IR of all models is the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
