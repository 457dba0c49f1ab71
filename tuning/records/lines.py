"""
Records as JSON lines, for export, import and packages; a line is a task, a result or a kept candidate.

    {"format": 1, "task": {"name": .., "kernel": .., "target": .., "threads": .., "space": .., "flops": ..}}
    {"format": 1, "of": [kernel hash, target, threads], "values": {..}, "strategy_version": .., "compiler": ..,
     "result": {"seconds": [..], "error": 0, ..}}
    {"format": 1, "of": .., "values": .., .., "kept": {"seconds": .., "default_seconds": .., "low": .., ..}}

A task's line stands in front of those that are of it. Empty lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TypeAlias, cast

from mlc.support.errors import UserError
from mlc.tuning.records.record import (
    FORMAT,
    Comparison,
    TaskKey,
    result_json,
    result_of,
    space_of,
    space_text,
    values_of,
    values_text,
)
from mlc.tuning.results import MeasureResult
from mlc.tuning.task import Task

Row: TypeAlias = tuple[TaskKey, str, str, str, MeasureResult | Comparison]
"""The task's key, the values' text, the versions of strategy and compiler, and what is known."""


def task_line(task: Task) -> str:
    """The line of a task."""
    facts = {
        name: getattr(task, name) for name in ("name", "kernel", "target", "threads", "flops", "weight", "compiled_for")
    }
    return json.dumps({"format": FORMAT, "task": facts | {"space": json.loads(space_text(task.space))}})


def record_line(key: TaskKey, vals: str, version: str, compiler: str, content: MeasureResult | Comparison) -> str:
    """The line of a result, or of a kept candidate."""
    what = {"kept": asdict(content)} if isinstance(content, Comparison) else {"result": result_json(content)}
    head = {"format": FORMAT, "of": list(key), "values": json.loads(vals)}
    return json.dumps({**head, "strategy_version": version, "compiler": compiler, **what})


def rows_of_line(line: str, place: str) -> Task | Row | None:
    """What a line holds; None for an empty one. Raises UserError at `place` for one that is no record."""
    if not line.strip() or line.lstrip().startswith("#"):
        return None
    try:
        data = json.loads(line)
    except ValueError as error:
        raise UserError(f"expected a JSON line of a record, but got {line[:40]!r}", place=place) from error
    if not isinstance(data, dict) or "format" not in data:
        raise UserError(f"expected a record with its format, but got {line[:40]!r}", place=place)
    found = cast("dict[str, object]", data)
    if not isinstance(found["format"], int) or found["format"] > FORMAT:
        raise UserError(
            f"expected records of format {FORMAT}, but got {found['format']}, which a newer mlc wrote", place=place
        )
    try:
        return _task(cast("dict[str, object]", found["task"])) if "task" in found else _row(found)
    except (KeyError, TypeError, ValueError) as error:
        detail = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"expected a whole record, but got one with {detail}", place=place) from error


def _task(facts: dict[str, object]) -> Task:
    return Task(
        str(facts["name"]),
        str(facts["kernel"]),
        str(facts["target"]),
        int(cast(int, facts["threads"])),
        space_of(json.dumps(facts["space"])),
        int(cast(int, facts["flops"])),
        int(cast(int, facts["weight"])),
        str(facts["compiled_for"]),
    )


def _row(found: dict[str, object]) -> Row:
    kernel_hash, target, threads = cast("list[str | int]", found["of"])
    content = (
        Comparison(**cast("dict[str, float]", found["kept"]))  # pyright: ignore[reportArgumentType] from JSON
        if "kept" in found
        else result_of(cast("dict[str, object]", found["result"]))
    )
    values = values_text(values_of(json.dumps(found["values"])))
    key = (str(kernel_hash), str(target), int(threads))
    return key, values, str(found["strategy_version"]), str(found["compiler"]), content
