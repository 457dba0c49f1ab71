"""
Kernels of other compilers in a package of C source.

    src/PREFIX_NAME.c                 the kernel: init once a process, then the body; the constants
    src/external/PREFIX_NAME_body.c   the compiler's C source (.o: its object), its functions renamed to the package's
    src/external/...                  the headers that the source includes from directories that its flags name
    src/mlc_runtime.h                 the header that every such source may include
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp

from mlc.codegen.external import RUNTIME_HEADER, compile_c, included_files
from mlc.driver.export import library as lib
from mlc.driver.export.package.words import words_text
from mlc.driver.kernels.external import check_symbols, kernel_of, symbols_of, what_of
from mlc.passes.graph.external.annotate.compilers import ExternalKernel
from mlc.support.alignment import ALIGNMENT
from mlc.support.weights import WeightStore
from mlc.targets.target import Target

_DIRECT = """\
int32_t {name}_body(void **args, mlc_runtime *rt);

MLC_LOCAL int32_t {name}(void **args, mlc_runtime *rt) {{
  return {name}_body(args, rt);
}}
"""
_ONCE = """\
#if !defined(__GNUC__)
#error "expected a compiler with GCC's atomic operations, by which {name}_init runs once"
#endif
{data}
int32_t {name}_init(void **constants, mlc_runtime *rt);
int32_t {name}_body(void **args, mlc_runtime *rt);

static void *constants[] = {{{constants}}};
static int ready; /* 0 before init, 1 while a thread runs it, 2 behind it */

static int32_t prepare(mlc_runtime *rt) {{
  for (;;) {{
    int seen = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
    if (seen == 2) return 0;
    if (seen == 0 && __atomic_compare_exchange_n(&ready, &seen, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {{
      const int32_t status = {name}_init(constants, rt);
      __atomic_store_n(&ready, status ? 0 : 2, __ATOMIC_RELEASE);
      return status;
    }}
  }}
}}

MLC_LOCAL int32_t {name}(void **args, mlc_runtime *rt) {{
  const int32_t status = prepare(rt);
  return status ? status : {name}_body(args, rt);
}}
"""


@dataclass(frozen=True)
class ExternalSource:
    """An external kernel of a package: the text of the function around it, and its own code."""

    name: str
    """The kernel's name in the package."""
    text: str
    made: ExternalKernel
    renamed: dict[str, str]
    """The functions that the code defines, and what they are called in the package."""
    headers: dict[str, Path]
    """The headers that the source includes, by the name by which it does."""
    flags: list[str]
    """The flags of the C compiler, without directories of headers."""

    @property
    def workspace_bytes(self) -> int:
        """The bytes of memory that each call needs."""
        return self.made.workspace_bytes

    @property
    def libraries(self) -> Sequence[str]:
        """The libraries that it is linked with."""
        return self.made.libraries

    def files(self, package: str) -> dict[str, str]:
        """The files in src/ by name."""
        head = f'#include "{package}_support.h"\n\n'
        return {f"{self.name}.c": head + self.text, "mlc_runtime.h": RUNTIME_HEADER}

    def write(self, directory: Path) -> tuple[str, list[str]]:
        """Write the code to src/external; its name, and the flags that compile it."""
        directory.mkdir(exist_ok=True)
        path = directory / f"{self.name}_body.{'o' if self.made.object else 'c'}"
        if self.made.object:
            path.write_bytes(self.made.object)
            flags = [f"--redefine-sym={old}={new}" for old, new in self.renamed.items()]
            lib.run_tool(["objcopy", *flags, str(path)], path)
        else:
            names = "".join(f"#define {old} {new}\n" for old, new in self.renamed.items())
            path.write_text(names + self.made.c_source)
        for name, header in self.headers.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(header, directory / name)
        return path.name, self.flags


def external_source(function: FuncOp, weights: WeightStore, target: Target, prefix: str) -> ExternalSource:
    """
    The code that a function's compiler makes, for a package whose functions begin with `prefix`.

    Raises UserError where that gives no code, or none that compiles.
    """
    what, own = what_of(function), function.sym_name.data
    made = kernel_of(function, weights, target)
    name = f"{prefix}_{own}"
    headers: dict[str, Path] = {}
    others, directories = _directories(made.flags)
    if made.c_source:
        headers = {_relative(path, directories): path for path in included_files(made.c_source, made.flags, what)}
    body = made.object or compile_c(made.c_source, made.flags, what)
    symbols = symbols_of(own, made)
    check_symbols(body, symbols, what)
    renamed = {symbol: f"{prefix}_{symbol}" for symbol in symbols}
    return ExternalSource(name, _wrapper(name, made), made, renamed, headers, others)


def _wrapper(name: str, made: ExternalKernel) -> str:
    """The kernel around the external code."""
    if not made.init:
        return _DIRECT.format(name=name)
    rows = [
        f"static const uint64_t data{k}[] __attribute__((aligned({ALIGNMENT}))) = "
        f"{words_text(np.ascontiguousarray(array).tobytes())};\n"
        for k, array in enumerate(made.constants)
    ]
    places = ", ".join(f"(void *)data{k}" for k in range(len(rows))) or "0"
    return _ONCE.format(name=name, data="".join(rows), constants=places)


def _directories(flags: Sequence[str]) -> tuple[list[str], list[Path]]:
    """The flags without directories of headers, and these directories."""
    others, directories = list[str](), list[Path]()
    given = iter(flags)
    for flag in given:
        if flag == "-I":
            directories.append(Path(next(given, ".")))
        elif flag.startswith("-I"):
            directories.append(Path(flag.removeprefix("-I")))
        else:
            others.append(flag)
    return others, directories


def _relative(header: Path, directories: Sequence[Path]) -> str:
    """The name by which a header is included."""
    return next((str(header.relative_to(one)) for one in directories if header.is_relative_to(one)), header.name)


__all__ = ["ExternalSource", "external_source"]
