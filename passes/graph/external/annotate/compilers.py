"""
External compilers: what takes over parts of a model, by name.

    mlc.register_compiler("toy", patterns=[Pattern(...)], codegen=toy_codegen, version="1")

`codegen` gets a Region and returns an ExternalKernel; the driver asks it for each function that graph-partition made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.passes.graph.external.annotate.patterns import Pattern, PatternMatch
from mlc.passes.graph.external.annotate.size_text import size_text
from mlc.support.errors import UserError, did_you_mean
from mlc.support.registered.registrations import note


@dataclass(frozen=True)
class Region:
    """What a codegen compiles: a function of graph ops whose constants are bound."""

    name: str
    """The symbol of the kernel to define."""
    init: str
    """The symbol of the init function, where there is one."""
    function: FuncOp
    """The function: its arguments are the inputs, the operands of its return the outputs."""
    matches: Sequence[PatternMatch]
    """The patterns that were matched, in order; each op but the constants is in one."""
    constants: Mapping[SSAValue, Any]
    """The arrays of the weights and constants of the function, by the values that stand for them."""
    target: str
    """The name of the target."""
    sizes: Sequence[DimExpr] = ()
    """The open sizes whose values follow the pointers of the outputs in args, in order; empty for static sizes."""

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The values of the inputs: args[0], args[1], ..."""
        return self.function.body.block.args

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The values of the outputs, whose pointers follow those of the inputs."""
        last = self.function.body.block.last_op
        assert last is not None
        return last.operands

    def size_text(self, size: Dim) -> str:
        """A size of the region's tensors as an `int64_t` expression of C over `args`."""
        first = len(self.inputs) + len(self.outputs)
        return size_text(size, {one: f"(int64_t)(intptr_t)args[{first + k}]" for k, one in enumerate(self.sizes)})

    @property
    def ops(self) -> Sequence[Operation]:
        """The ops that compute something, in order."""
        return [op for match in self.matches for op in match.ops]


@dataclass(frozen=True)
class ExternalKernel:
    """
    The code of a region: an object file or C99 source that defines `int32_t NAME(void **args, mlc_runtime *rt)`.

    args holds pointers to the inputs, then to the outputs, then the values of `Region.sizes` (none where all sizes are
    static), then a pointer to the workspace, at a multiple of 64 bytes. If `init`,
    the code also defines `int32_t INIT(void **constants, mlc_runtime *rt)`, which is called once a process before the
    first run, with pointers to the `constants`, which stay. Both return 0, or an error code.
    """

    c_source: str = ""
    """C source; "mlc_runtime.h" may be included."""
    object: bytes = b""
    """An object file instead of it."""
    constants: Sequence[Any] = ()
    """The arrays that init gets, packed as the code wants them."""
    init: bool = False
    workspace_bytes: int = 0
    libraries: Sequence[str] = ()
    """What it is linked with: `dnnl`, or the path of a library."""
    flags: Sequence[str] = field(default=("-O2",))
    """Flags for the C compiler: `-I...`, `-march=...`."""


Codegen = Callable[[Region], ExternalKernel]


@dataclass(frozen=True)
class ExternalCompiler:
    """A registered compiler: what it takes over, and what makes code of that."""

    name: str
    patterns: tuple[Pattern, ...]
    codegen: Codegen
    merge: bool = True
    """Whether neighbouring matches become one region."""
    open_sizes: bool = False
    """Whether its code takes sizes as arguments; without it, ops of open sizes are compiled by mlc."""


_COMPILERS: dict[str, ExternalCompiler] = {}


def register_compiler(
    name: str,
    patterns: Sequence[Pattern],
    codegen: Codegen,
    *,
    version: str | None = None,
    merge: bool = True,
    open_sizes: bool = False,
    override: bool = False,
) -> ExternalCompiler:
    """
    Register an external compiler: `patterns` in order of preference, and `codegen`, which makes code of a region.

    `version` is a text that changes whenever the generated code does; without one, models are not cached. With
    `merge=False` every match is a region of its own. With `open_sizes=True` it is given ops whose sizes are known only
    at a call: its code reads them from `args` (`Region.size_text`); otherwise mlc compiles such ops, and warns.
    Raises UserError for a name that is taken, unless `override`.
    """
    if not name.isidentifier():
        raise UserError(f"expected the name of a compiler to be an identifier, but got {name!r}")
    if name in _COMPILERS and not override:
        raise UserError(f"expected a new name, but compiler '{name}' is registered; override=True replaces it")
    if not all(isinstance(one, Pattern) for one in patterns):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected patterns to be a list of Pattern, but got {patterns!r:.80}")
    _COMPILERS[name] = ExternalCompiler(name, tuple(patterns), codegen, merge, open_sizes)
    note("compiler", name, f"{version} open sizes" if version is not None and open_sizes else version)
    return _COMPILERS[name]


def compiler_of(name: str) -> ExternalCompiler:
    """The registered compiler of a name; UserError if there is none."""
    found = _COMPILERS.get(name)
    if found is None:
        known = f"; registered are {', '.join(_COMPILERS)}" if _COMPILERS else "; none is registered"
        raise UserError(f"expected a registered compiler, but got '{name}'{did_you_mean(name, _COMPILERS) or known}")
    return found


def compiler_names(text: str) -> list[str]:
    """The names in the option of a pass: `toy+dnnl`."""
    return [name for name in text.split("+") if name]


def remove_compiler(name: str) -> None:
    """Remove a registered compiler; UserError if there is none."""
    del _COMPILERS[compiler_of(name).name]


__all__ = ["ExternalCompiler", "ExternalKernel", "Region", "register_compiler", "remove_compiler"]
