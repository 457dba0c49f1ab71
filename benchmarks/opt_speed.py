"""
CPU seconds and peak memory of `mlc-opt` (parse, verify, print) on large texts of each level.

    python benchmarks/opt_speed.py [--ops 100000] [--level te ...] [--kind distinct] [--repeat 3] [--json FILE]

Two kinds of text: "repeated" functions differ in their names only; of "distinct" ones every function has sizes,
constants, attributes and names of values of its own, so that nothing that is known about one line of text holds for
another. In the level "unlike", every function is a chain of graph ops of its own, drawn by a seed: no two have the same
ops. Every figure is the CPU time of a new process, the start included, the smallest of `--repeat`.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

KINDS = ("repeated", "distinct")


def graph_function(name: int, n: int) -> tuple[str, int]:
    """A function of the graph level on tensors of the size `n`, and the number of its ops."""
    t, s = f"tensor<{n}x8xf32>", f"tensor<8x{n}xf32>"
    return (
        f"""func.func @f{name}(%x{n}: {t}, %w: {t}) -> {s} {{
  %c{n} = graph.constant dense<[{n}.5, -{n}.25]> : tensor<2xf32>
  %a{n} = graph.add %x{n}, %w : {t}
  %b = graph.relu %a{n} : {t}
  %l = graph.clip %b {{min = -{n}.0, max = {n}.0}} : {t}
  %p = graph.pad %l {{pad_width = [0, {n}, 0, 0]}} : ({t}) -> tensor<{2 * n}x8xf32>
  %s = graph.slice %p {{begin = [{n}, 0], end = [{2 * n}, 8], strides = [1, 1]}} : (tensor<{2 * n}x8xf32>) -> {t}
  %m = graph.multiply %s, %l : {t}
  %t{n} = graph.transpose %m {{axes = [1, 0]}} : ({t}) -> {s}
  %r = graph.reshape %t{n} : ({s}) -> {t}
  %q = graph.reshape %r : ({t}) -> {s}
  return %q : {s}
}}
""",
        12,
    )


def te_function(name: int, n: int) -> tuple[str, int]:
    """A kernel of tensor expressions on `n` elements, and the number of its ops."""
    t = f"tensor<{n + 2}xf32>"
    return (
        f"""te.func @f{name}(%x{n}: {t}, %w: tensor<{n}x8xf32>) -> tensor<{n}xf32> {{
  %y{n} = te.compute "window{n}" (%i{n} : {n}) {{
    %a{n} = te.read %x{n}[%i{n} + 2] : f32
    %b = te.read %x{n}[-%i{n} + {n}] : f32
    %c = arith.constant {n}.5 : f32
    %d{n} = arith.mulf %a{n}, %c : f32
    %e = arith.addf %d{n}, %b : f32
    te.yield %e : f32
  }} : tensor<{n}xf32>
  %z = te.compute "sum{n}" (%i : {n}) reduce (%k{n} : 8) sum {{
    %a = te.read %w[%i, %k{n}] : f32
    %g{n} = te.read %y{n}[%i] : f32
    %h = arith.mulf %a, %g{n} : f32
    te.yield %h : f32
  }} : tensor<{n}xf32>
  te.return %z : tensor<{n}xf32>
}}
""",
        14,
    )


def loop_function(name: int, n: int) -> tuple[str, int]:
    """A kernel of loops on `n` elements, and the number of its ops."""
    t = f"memref<{n}x8xf32>"
    return (
        f"""loop.func @f{name}(%x{n}: {t}, %y: {t}) attributes {{outputs = 1 : i64}} {{
  %t{n} = loop.alloc "local" : {t}
  loop.for %i{n} = 0 to {n} parallel {{
    loop.for %j = 0 to 8 {{
      %a{n} = loop.load %x{n}[%i{n}, %j] : f32
      %c = arith.constant {n}.5 : f32
      %b = arith.mulf %a{n}, %c : f32
      loop.store %b, %t{n}[%i{n}, %j] : f32
    }}
  }}
  loop.for %i = 1 to {n} {{
    %v{n} = loop.load %t{n}[-%i + {n}, d0] tile (d0 : 8) : vector<8xf32>
    %w = loop.load %x{n}[%i - 1, d0] tile (d0 : 8) : vector<8xf32>
    %u = loop.fma %v{n}, %w, %w : vector<8xf32>, vector<8xf32>, vector<8xf32>
    loop.store %u, %y[%i, d0] tile (d0 : 8) : vector<8xf32>
  }}
}}
""",
        13,
    )


def llvm_function(name: int, n: int) -> tuple[str, int]:
    """A function of the llvm dialect with constants and offsets of its own, and the number of its ops."""
    v = f"vector<{n}xf32>"
    dynamic = "elem_type = f32, noWrapFlags = 0 : i32, rawConstantIndices = array<i32: -2147483648>"
    constant = f"elem_type = f32, noWrapFlags = 0 : i32, rawConstantIndices = array<i32: {n}>"
    return (
        f"""llvm.func @f{name}(%p{n} : !llvm.ptr, %q : !llvm.ptr, %i : i64) {{
  %n = llvm.mlir.constant({n}) : i64
  %m{n} = llvm.mul %i, %n : i64
  %a = "llvm.getelementptr"(%p{n}, %m{n}) <{{{dynamic}}}> : (!llvm.ptr, i64) -> !llvm.ptr
  %b{n} = "llvm.getelementptr"(%q) <{{{constant}}}> : (!llvm.ptr) -> !llvm.ptr
  %c = "llvm.load"(%a) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> {v}
  %d{n} = "llvm.load"(%b{n}) <{{ordering = 0 : i64}}> : (!llvm.ptr) -> {v}
  %e = llvm.fmul %c, %d{n} : {v}
  %g{n} = llvm.fadd %e, %c : {v}
  "llvm.store"(%g{n}, %b{n}) <{{ordering = 0 : i64}}> : ({v}, !llvm.ptr) -> ()
  llvm.return
}}
""",
        11,
    )


LEVELS: dict[str, Callable[[int, int], tuple[str, int]]] = {
    "graph": graph_function,
    "te": te_function,
    "loop": loop_function,
    "llvm": llvm_function,
}


UNARY, BINARY = ("relu", "tanh", "exp", "sigmoid"), ("add", "multiply", "subtract")


def unlike_function(name: int, n: int) -> tuple[str, int]:
    """A function of the graph level whose ops are drawn by its number, and the number of its ops."""
    chance, t = random.Random(name), f"tensor<{n}x8xf32>"
    lines, values = [f"func.func @f{name}(%x{n}: {t}, %w: {t}) -> {t} {{"], [f"%x{n}", "%w"]
    for number in range(10):
        op = chance.choice((*UNARY, *BINARY))
        operands = ", ".join(chance.choices(values, k=2 if op in BINARY else 1))
        lines.append(f"  %v{number} = graph.{op} {operands} : {t}")
        values.append(f"%v{number}")
    return "\n".join([*lines, f"  return %v9 : {t}\n}}\n"]), 12


ALL = {**LEVELS, "unlike": unlike_function}


def functions(level: str, kind: str, ops: int) -> Iterator[str]:
    """Functions of a level until they have so many ops."""
    count = number = 0
    while count < ops:
        text, size = ALL[level](number, 12 if kind == "repeated" else 12 + number)
        yield text
        count += size
        number += 1


def measure(path: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one run of `mlc-opt`."""
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", str(path), "-o", os.devnull, "--max-ops", str(1 << 24)]
    process = os.posix_spawn(sys.executable, [*command, "--max-input-bytes", str(1 << 30)], os.environ)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"mlc-opt failed on {path}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measure what the command line asks for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--level", nargs="*", choices=ALL, default=[*ALL])
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=[*KINDS])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    table = Table("level", "functions", "ops", "MB of text", "CPU s", "peak MiB", title="mlc-opt: parse, verify, print")
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for level in args.level:
            for kind in args.kind:
                path = Path(folder) / f"{level}-{kind}.mlir"
                path.write_text("".join(functions(level, kind, args.ops)))
                runs = [measure(path) for _ in range(args.repeat)]
                seconds, memory = min(run[0] for run in runs), min(run[1] for run in runs)
                rows.append({"level": level, "kind": kind, "ops": args.ops, "seconds": seconds, "mib": memory})
                size = path.stat().st_size / 1e6
                table.add_row(level, kind, f"{args.ops:,}", f"{size:.1f}", f"{seconds:.2f}", f"{memory:.0f}")
                path.unlink()
    Console().print(table)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
