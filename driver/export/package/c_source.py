"""The program of a package as C99 source: a file for each kernel, one for @main, one for the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.codegen.c.prelude import PRELUDE
from mlc.codegen.c.program.kernel import CKernelText, print_kernel
from mlc.codegen.c.program.main import print_main
from mlc.dialects import loop
from mlc.dialects.attributes import EXTERNAL_COMPILER, MAIN_SYMBOLS
from mlc.driver.describe import describe, write_weights
from mlc.driver.describe.pools import checked_pools
from mlc.driver.describe.symbolic import describe_symbolic, kernel_shapes, rooms, signature_of
from mlc.driver.export.package.c_calls import CCalls
from mlc.driver.export.package.c_external import external_source
from mlc.driver.export.package.spec import identifiers
from mlc.driver.export.package.words import words_text
from mlc.driver.export.sizes import C99, size_functions
from mlc.driver.kernels.kernel import kernel_passes
from mlc.driver.models.compilation import Compilation
from mlc.driver.pipeline.manager import parse_pipeline, run_passes
from mlc.lowering.graph_to_main.separate_pools import separate_pools
from mlc.lowering.memory.kernel_buffers import encoded_rows
from mlc.support.abi import C_DECLARATIONS
from mlc.support.errors import UserError
from mlc.targets.target import Target

MOST_EMBEDDED = 256 << 20
"""Bytes of weights up to which they are written as C: compilers take about 20 times that in memory."""
_SUPPORT = """\
/* What the kernels of {name} share. Written by mlc package; do not edit. */
#ifndef {caps}_SUPPORT_H
#define {caps}_SUPPORT_H
{prelude}
#if defined(__GNUC__)
#define MLC_LOCAL __attribute__((visibility("hidden")))
#else
#define MLC_LOCAL
#endif

#ifndef MLC_RUNTIME_DECLARED
#define MLC_RUNTIME_DECLARED
{runtime}#endif
{calls}#endif
"""


class CSource:
    """A model's program as C: `files` by name, and the facts that an artifact's model.json has."""

    def __init__(self, compilation: Compilation, name: str) -> None:
        self.name = name
        self.prefix = f"mlc_{name}"
        options = compilation.options
        specs = signature_of(compilation.model)
        self.main, sources = compilation.plan()
        self.words = dict(zip(sources, identifiers(list(sources), "kernel"), strict=True))
        names = {name: f"{self.prefix}_{word}" for name, word in self.words.items()}
        own = {name: op for name, op in sources.items() if EXTERNAL_COMPILER not in op.attributes}
        target, weights = Target.parse(options.target), compilation.model.weights
        others = [op for name, op in sources.items() if name not in own]
        self.external = [external_source(op, weights, target, self.prefix) for op in others]
        passes = kernel_passes(options)
        first, last = (next(k for k, one in enumerate(passes) if one.name == n) for n in _TILES)
        passes = [*passes[:first], *parse_pipeline("loop-scalarize"), *passes[first:last]]
        self.kernels = {name: self._kernel(compilation, op, passes) for name, op in own.items()}
        self.calls = CCalls.of(self.kernels.values(), self.prefix)
        made = (*self.kernels.values(), *self.external)
        description, workspace = self._description(sources), max((k.workspace_bytes for k in made), default=0)
        self.model = {
            **specs,
            **description,
            "entry": f"{self.prefix}_main",
            "workspace_bytes": description["plan"]["bytes"] + workspace,
            "kernel_workspace_bytes": workspace,
            "pools": checked_pools(self.main, workspace),
            "scratch_bytes": max((k.scratch_bytes for k in self.kernels.values()), default=0),
            "functions": self.calls.functions,
            "libraries": list(dict.fromkeys([*self.calls.libraries, *(n for k in self.external for n in k.libraries)])),
            "target": {"cpu": "C99"},
        }
        self.files = self._files(names, options.threads)

    def _description(self, sources: Mapping[str, FuncOp]) -> dict[str, Any]:
        """The calls of @main and the memory that it needs; of open sizes as expressions of the symbols."""
        if MAIN_SYMBOLS not in self.main.attributes:
            return describe(self.main, {}, {})
        found = describe_symbolic(self.main, {name: kernel_shapes(op) for name, op in sources.items()}, {}, {})
        rows = {name: encoded_rows(kernel.symbolic) for name, kernel in self.kernels.items()}
        return {**found, "kernel_rooms": rooms(found["nodes"], dict.fromkeys(sources, ()) | rows)}

    def _kernel(self, compilation: Compilation, source: FuncOp, passes: Sequence[ModulePass]) -> CKernelText:
        module = ModuleOp([source.clone()])
        run_passes(module, compilation.ctx, passes)
        kernel = next(op for op in module.body.block.ops if isinstance(op, loop.FuncOp))
        kernel.sym_name = StringAttr(self.words[kernel.sym_name.data])
        return print_kernel(
            kernel, threads=compilation.options.threads > 1, prefix=f"{self.prefix}_", calls=f"{self.prefix}_c_"
        )

    def _files(self, names: dict[str, str], threads: int) -> dict[str, str]:
        """The C files by name."""
        head = f'#include "{self.name}_support.h"\n\n'
        support = _SUPPORT.format(
            name=self.name,
            caps=self.name.upper(),
            prelude=PRELUDE,
            runtime=C_DECLARATIONS if threads > 1 else C_DECLARATIONS.partition("/* A runtime on")[0],
            calls=self.calls.declarations,
        )
        declared = "".join(f"int32_t {name}(void **args, mlc_runtime *rt);\n" for name in names.values())
        program = self.main.clone()
        separate_pools(program)
        main = print_main(program, f"{self.prefix}_main", names)
        files = {f"{self.name}_support.h": support, f"{self.name}_main.c": f"{head}{declared}\n{main}"}
        if self.model["symbols"]:
            files[f"{self.name}_sizes.c"] = head + size_functions(self.model, self.prefix, C99)
        if self.calls.definitions:
            files[f"{self.name}_calls.c"] = self.calls.definitions
        for kernel in self.external:
            files |= kernel.files(self.name)
        return files | {f"{self.words[name]}.c": head + kernel.text for name, kernel in self.kernels.items()}

    def write_weights(self, compilation: Compilation, path: Path) -> int:
        """Write the weights to a binary file, each at a multiple of 64 bytes; the bytes."""
        return write_weights(self.main, compilation.model.weights, path)


_TILES = ("loop-partition", "convert-loop-to-llvm")


def weights_text(weights: Path, name: str) -> str:
    """The bytes of a file as a C array of 64-bit words, for little-endian machines; UserError for a large file."""
    size = weights.stat().st_size
    if size > MOST_EMBEDDED:
        raise UserError(
            f"expected weights of at most {MOST_EMBEDDED} bytes in C source, but got {size}; use --weights beside"
        )
    text = f"/* Little-endian words. */\nconst uint64_t {name}[] = {words_text(weights.read_bytes())};\n"
    return f"#include <stdint.h>\n\n{text}"
