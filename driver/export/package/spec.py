"""The facts of a package that its files are made of."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from mlc.codegen.link import library_flags
from mlc.driver.export.c_header import C_TYPES, item_bytes
from mlc.driver.export.package.pools import PackedPool
from mlc.runtime.sizes import Size, evaluate
from mlc.runtime.sizes import text as text_of
from mlc.support.alignment import ALIGNMENT
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.driver.export.package.functions import LibraryFunction

TEMPLATES = Path(__file__).parent / "templates"
LANGUAGES = ("a", "so", "c")
"""What the program of a package is: a static library, a shared one, C source."""
WEIGHTS = ("embed", "beside")
"""Where the weights are: in the program, or in a file that the caller reads."""
_C_WORDS = frozenset(
    "auto bool break case char class const continue default delete do double else enum extern false float for goto if "
    "inline int long new operator private public register restrict return short signed sizeof static struct switch "
    "template this true typedef typename union unsigned virtual void volatile while".split()
)


@dataclass(frozen=True)
class PackedTensor:
    """An input or output: its field in the struct, and what the model says of it."""

    field: str
    name: str
    shape: Sequence[Size]
    dtype: str

    @property
    def type(self) -> str:
        """The C type of an element."""
        return C_TYPES.get(self.dtype, "uint16_t")

    @property
    def width(self) -> int:
        """The bytes of an element."""
        return item_bytes(self.dtype)

    @property
    def shape_text(self) -> str:
        """The shape as people read it."""
        return " x ".join(str(text_of(size)) for size in self.shape) or "scalar"

    def bytes(self, values: dict[str, int]) -> int:
        """The bytes of the tensor, for values of the open sizes."""
        return prod(evaluate(size, values) for size in self.shape) * self.width


@dataclass(frozen=True)
class PackageSpec:
    """What is packed, and how; `model` is the model.json of the compiled program."""

    name: str
    model: dict[str, Any]
    lang: str
    weights: str
    threads: int
    malloc: bool
    recorded: dict[str, int]
    """The values of the open sizes on which inputs and outputs were recorded."""
    registered: Sequence[LibraryFunction] = ()
    """The C functions that the program calls by name, in the order of its table."""
    external: Sequence[tuple[str, Sequence[str]]] = ()
    """The files in src/external of other compilers' kernels in C source: C with its flags, or objects."""

    @property
    def prefix(self) -> str:
        """What the names of the program's own functions begin with."""
        return f"mlc_{self.name}"

    @cached_property
    def inputs(self) -> list[PackedTensor]:
        return _tensors(self.model["inputs"], "input")

    @cached_property
    def outputs(self) -> list[PackedTensor]:
        return _tensors(self.model["outputs"], "output")

    @property
    def counted(self) -> Sequence[Sequence[int]]:
        """Output, axis, and output that is its count, of each output of a data-dependent length."""
        return self.model.get("counted", ())

    @property
    def symbols(self) -> list[tuple[str, str, int, int, int]]:
        """The open sizes: field, name, lowest, highest, step."""
        rows = self.model.get("symbols", ())
        fields = identifiers([name for name, *_ in rows], "size")
        return [(field, *row) for field, row in zip(fields, rows, strict=True)]

    @property
    def functions(self) -> list[tuple[str, str]]:
        """The functions that the program calls by name: the field of each, and its name."""
        names: Sequence[str] = self.model.get("functions", ())
        return list(zip(identifiers(names, "function"), names, strict=True))

    @property
    def pools(self) -> list[PackedPool]:
        """The memory pools that the model was compiled for, in the order in which the program takes them."""
        rows = self.model.get("pools", ())
        fields = identifiers([row["name"] for row in rows], "pool")
        return [PackedPool(field, **row) for field, row in zip(fields, rows, strict=True)]

    @property
    def target(self) -> str:
        """What the program runs on."""
        return "any machine (C99)" if self.lang == "c" else self.model["target"]["cpu"]

    @property
    def own_bytes(self) -> int:
        """The bytes of an arena without the threads' scratch; 0 where they depend on open sizes."""
        return 0 if self.symbols else rounded(max(ALIGNMENT, self.model["workspace_bytes"]))

    @property
    def scratch_bytes(self) -> int:
        """The bytes of one thread's scratch."""
        return rounded(max(ALIGNMENT, self.model["scratch_bytes"]))

    @property
    def library(self) -> str:
        """The path of the library inside of the package."""
        directory = "build" if self.lang == "c" else "lib"
        return f"{directory}/lib{self.name}.{'so' if self.lang == 'so' else 'a'}"

    @property
    def links(self) -> list[str]:
        """The libraries, besides libm, that a program with this one is linked with."""
        others = self.model.get("libraries", ()) if self.lang != "so" else ()
        return [*(["pthread"] if self.threads > 1 else []), *others]

    def filled(self, template: str, **words: object) -> str:
        """A template's text with its words; those that every file has are given here."""
        text = (TEMPLATES / f"{template}.tmpl").read_text()
        common = {
            "name": self.name,
            "CAPS": self.name.upper(),
            "target": self.target,
            "weights_bytes": self.model["weights_bytes"],
            "scratch_bytes": self.scratch_bytes,
            "library": self.library,
            "pthread": "".join(f" {flag}" for flag in library_flags(self.links)),
        }
        return re.sub(r"[ \t]+$", "", Template(text).substitute(common | words), flags=re.MULTILINE)


def rounded(size: int) -> int:
    """A size rounded up to the alignment of memory."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def identifiers(names: Sequence[str], kind: str) -> list[str]:
    """A C identifier for each name, all different; a name without a letter becomes `kind` and its number."""
    found: list[str] = []
    for k, name in enumerate(names):
        word = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or f"{kind}_{k}"
        if word[0].isdigit() or word in _C_WORDS or keyword.iskeyword(word):
            word = f"{kind}_{word}"
        while word in found:
            word += "_"
        found.append(word)
    return found


def package_name(text: str) -> str:
    """The name of a package, a C identifier of small letters; UserError for a text without one."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    if not name or name[0].isdigit() or name in _C_WORDS:
        raise UserError(f"expected a name that C functions may begin with, but got '{text}'; give one with --name")
    return name


def _tensors(rows: Sequence[Any], kind: str) -> list[PackedTensor]:
    fields = identifiers([name for name, *_ in rows], kind)
    return [PackedTensor(field, *row) for field, row in zip(fields, rows, strict=True)]
