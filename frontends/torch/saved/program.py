"""
The program of a .pt2 file: checked, then made by torch's own deserializer.

What torch would run, or could be made to run, is checked or dropped: the text of sizes (evaluated), names (they become
Python source), ops (called on constants), structures (they name modules to import), metadata and conditions.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    ExportedProgramDeserializer,
    _dict_to_dataclass,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType] torch has no public reader
)
from torch._export.serde.union import _Union  # pyright: ignore[reportPrivateUsage] the base of all unions of the schema
from torch.export import ExportedProgram

from mlc.frontends.common.untyped import is_sequence, is_table
from mlc.frontends.torch.saved.archive import Archive
from mlc.frontends.torch.saved.ops import is_known
from mlc.frontends.torch.saved.tensors import tensors_of
from mlc.frontends.torch.saved.text import check_expression
from mlc.frontends.torch.structure import Fields, names_of
from mlc.support.errors import UnsupportedOps, UserError

_IDENTIFIER = re.compile(r"(?:[A-Za-z_]\w*)?", re.ASCII)
_PATH = re.compile(r"""[^"'\\\x00-\x1f]*""")
"""Names of weights and modules: torch quotes parts that are not identifiers in the source that it generates."""
_FREE = ("as_string", "as_strings")
"""Arguments that are text; torch quotes them."""
_KEPT_METADATA = ("stack_trace", "nn_module_stack")
"""The metadata that is kept: the module and the source line of a call."""


@dataclass(frozen=True)
class Saved:
    """A program of a file, and the text of the conditions on sizes under which it was traced."""

    program: ExportedProgram
    conditions: tuple[str, ...]


def load_program(path: Path) -> Saved:
    """The program of a file of torch.export.save; UserError for a file that is none, or not of data alone."""
    with Archive(path) as archive:
        name = archive.program()
        record = archive.json(f"models/{name}.json")
        try:
            described = cast("schema.ExportedProgram", _dict_to_dataclass(schema.ExportedProgram, record))
            conditions = tuple(map(str, described.guards_code))
            described.guards_code = []
            _Checker().check(described)
            tensors = [tensors_of(archive, name, kind) for kind in ("weights", "constants")]
            program = ExportedProgramDeserializer().deserialize(described, tensors[0], tensors[1])
        except UnsupportedOps as error:
            raise UnsupportedOps(str(path), error.ops) from error
        except UserError:
            raise
        except Exception as error:  # torch says in many ways that a program is malformed
            reason = (str(error).strip().splitlines() or [""])[-1]
            message = f"expected a program of torch.export.save that torch {torch.__version__} reads"
            raise archive.fail(f"{message}, but got {type(error).__name__}: {reason}") from error
    return Saved(program, conditions)


class _Checker:
    """A walk over a program in torch's schema; ValueError for anything but data."""

    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.unknown: list[tuple[str, str, str]] = []

    def check(self, program: Any) -> None:
        """Check a program, and drop the parts that are not needed."""
        module = program.graph_module
        self.fields = {kind: list(one.field_names) for kind, one in module.treespec_namedtuple_fields.items()}
        module.treespec_namedtuple_fields = {}
        module.metadata = {}
        self._visit(program, "")
        if self.unknown:
            raise UnsupportedOps("", self.unknown)

    def _visit(self, value: Any, key: str) -> None:
        if isinstance(value, _Union):
            self._visit(value.value, str(value.type))
        elif dataclasses.is_dataclass(value):
            self._visit_record(value)
        elif is_sequence(value):
            for one in value:
                self._visit(one, key)
        elif is_table(value):
            for name, one in value.items():
                self._visit(name, "key")
                self._visit(one, key)
        elif isinstance(value, str) and key not in _FREE:
            self._check_text(value, key)
        elif value is not None and not isinstance(value, str | int | float | bool):
            raise ValueError(f"unexpected {type(value).__name__} as {key}")

    def _visit_record(self, record: Any) -> None:
        if isinstance(record, schema.CustomObjArgument):
            raise ValueError(f"the program holds an object of the class {record.class_fqn!r}, which mlc never loads")
        if isinstance(record, schema.Node):
            given = record.metadata
            record.metadata = {key: _printable(given[key]) for key in _KEPT_METADATA if key in given}
            if not is_known(record.target):
                self.unknown.append((_printable(str(record.name)), _printable(str(record.target)), ""))
        if isinstance(record, schema.ModuleCallSignature):
            record.in_spec, record.out_spec = (
                plain_structure(spec, self.fields) for spec in (record.in_spec, record.out_spec)
            )
        for field in dataclasses.fields(record):
            if field.name not in ("metadata", "target", "in_spec", "out_spec"):
                self._visit(getattr(record, field.name), field.name)

    def _check_text(self, text: str, key: str) -> None:
        if key == "expr_str":
            check_expression(text)
        elif key == "as_operator":
            if not is_known(text):
                self.unknown.append((key, _printable(text), ""))
        elif not (_IDENTIFIER if key in ("name", "as_name") else _PATH).fullmatch(text):
            raise ValueError(f"expected a name as {key}, but got {text[:80]!r}")


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def plain_structure(text: str, fields: Mapping[str, list[str]]) -> str:
    """
    The structure of inputs or outputs, in text, with no classes but torch's: tuples, lists, dicts.

    Named tuples, dataclasses and other classes become `Fields` where the text names their parts, else tuples.
    `fields` has the names of the parts of named tuples.
    """
    protocol, structure = json.loads(text)
    return json.dumps([protocol, _plain(structure, fields)])


_SEQUENCES = ("builtins.tuple", "builtins.list", "collections.deque")
_DICTS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")


def _plain(structure: Any, fields: Mapping[str, list[str]]) -> dict[str, Any]:
    kind, context, parts = structure["type"], structure["context"], structure["children_spec"]
    children = [_plain(part, fields) for part in parts]
    if kind is None and context is None and not children:
        return {"type": None, "context": None, "children_spec": []}
    if kind in _SEQUENCES:
        known = kind if kind == "builtins.list" else "builtins.tuple"
        return {"type": known, "context": "null", "children_spec": children}
    names = _part_names(kind, context, len(children), fields)
    if names is None:
        return {"type": "builtins.tuple", "context": "null", "children_spec": children}
    known = "builtins.dict" if kind in _DICTS else "mlc.Fields"
    return {"type": known, "context": json.dumps(names), "children_spec": children}


def _part_names(kind: Any, context: Any, count: int, fields: Mapping[str, list[str]]) -> list[Any] | None:
    if kind == "collections.namedtuple":
        return names_of(Fields, fields.get(context), count)
    if kind == "collections.defaultdict":
        return names_of(dict, context["dict_context"], count)
    try:
        given = json.loads(context) if isinstance(context, str) else context
    except ValueError:
        given = None
    names = names_of(dict if kind in _DICTS else Fields, given, count)
    if names is None or all(isinstance(name, str | int | float | bool | None) for name in names):
        return names
    raise ValueError(f"expected keys of a dict that are text or numbers, but got {names[:4]}")


__all__ = ["Saved", "load_program", "plain_structure"]
