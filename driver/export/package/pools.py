"""The memory pools of a package: arrays that the caller may hand in for each, with their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlc.driver.export.package.spec import PackageSpec

_STRUCT = """
/* An array of the caller's, at a multiple of {caps}_ALIGNMENT. */
typedef struct {name}_pool {{
  void *data;
  size_t bytes;
}} {name}_pool;
"""
_CONSTANT = """
/* Constants: an array of the caller's with the content that the comments below say. */
typedef struct {name}_constant_pool {{
  const void *data;
  size_t bytes;
}} {name}_constant_pool;
"""
_POOLS = """
/* The memory pools. */
typedef struct {name}_pools {{
{fields}
}} {name}_pools;
"""
_OPTION = """\
  const {name}_pools *pools;                     /* memory for the pools; NULL: in the arena and the weights */
"""
_ARENA = """\
/* The bytes of an arena for a call that is handed the workspace pools: the scratch of so many threads. */
#define {caps}_SCRATCH_BYTES(threads) ((size_t)(threads) * {scratch})
"""


@dataclass(frozen=True)
class PackedPool:
    """A pool: its field in the struct, and what the model says of it."""

    field: str
    name: str
    kind: str
    """ "workspace" or "constant"."""
    offset: int
    """Its first byte in the arena or in the weights, where the caller hands in none."""
    used: int
    bytes: int


def macros(spec: PackageSpec) -> str:
    """The sizes of the pools."""
    lines: list[str] = []
    for pool in spec.pools:
        name = f"{spec.name.upper()}_{pool.field.upper()}_POOL"
        lines.append(f"#define {name}_BYTES {pool.used} /* needed; declared: {pool.bytes} */\n")
        if pool.kind == "constant":
            lines.append(f"#define {name}_OFFSET {pool.offset} /* where its content begins in the weights */\n")
    if has_workspace(spec):
        lines.append(_ARENA.format(caps=spec.name.upper(), scratch=spec.scratch_bytes))
    return "".join(lines)


def struct(spec: PackageSpec) -> str:
    """The declarations of the pools; empty without."""
    if not spec.pools:
        return ""
    caps, kinds = spec.name.upper(), {pool.kind for pool in spec.pools}
    rows: list[str] = []
    for pool in spec.pools:
        macro = f"{caps}_{pool.field.upper()}_POOL"
        if pool.kind == "workspace":
            rows.append(f"  {spec.name}_pool {pool.field}; /* at least {macro}_BYTES */")
        else:
            content = f"{macro}_BYTES of the weights from {macro}_OFFSET on; NULL: there"
            rows.append(f"  {spec.name}_constant_pool {pool.field}; /* {content} */")
    text = _STRUCT.format(name=spec.name, caps=caps) if "workspace" in kinds else ""
    text += _CONSTANT.format(name=spec.name) if "constant" in kinds else ""
    return text + _POOLS.format(name=spec.name, fields="\n".join(rows))


def option(spec: PackageSpec) -> str:
    """The field of the options."""
    return _OPTION.format(name=spec.name) if spec.pools else ""


def wrong(spec: PackageSpec) -> list[str]:
    """The conditions under which the pools that the caller hands in do not fit."""
    found: list[str] = []
    for pool in spec.pools:
        at = f"options->pools->{pool.field}"
        misfit = f"(is_wrong({at}.data, 64) || {at}.bytes < {pool.used})"
        if pool.kind == "constant":
            found.append(f"options->pools && {at}.data && {misfit}")
        elif pool.used:
            found.append(f"options->pools && {misfit}")
    return found


def weights_needed(spec: PackageSpec) -> str:
    """The condition under which the file of weights is read; empty where it always is."""
    constants = [pool.field for pool in spec.pools if pool.kind == "constant"]
    given = "".join(f" || !options->pools->{field}.data" for field in constants)
    return f"!options->pools{given}" if constants else ""


def fill(spec: PackageSpec, first: int, weights: str) -> list[str]:
    """The statements that pass the pools to the program, behind `first` other pointers."""
    lines: list[str] = []
    for k, pool in enumerate(spec.pools, first):
        at = f"options->pools->{pool.field}.data"
        if pool.kind == "workspace":
            lines.append(f"io[{k}] = options->pools ? {at} : arena + {pool.offset};")
        else:
            own = f"(const char *){weights} + {pool.offset}"
            lines.append(f"io[{k}] = (void *)(uintptr_t)(options->pools && {at} ? {at} : {own});")
    return lines


def has_workspace(spec: PackageSpec) -> bool:
    """Whether the caller may hand in the memory of intermediates."""
    return any(pool.kind == "workspace" for pool in spec.pools)


__all__ = ["PackedPool"]
