"""
Schedules by hand: one .mlir file for each kernel of a model, written out, edited, and read back.

    dir/conv2d_add_relu_42313efc.mlir     te.func @conv2d_add_relu_42313efc ...  sched.schedule @... { ... }

`mlc compile MODEL --dump-schedules dir` writes what the strategies chose; `--schedules dir` uses what the files say
(the pass `te-read-schedules`). A kernel without a file keeps its strategy's schedule. Nothing heavy is imported here.
"""

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlc.support.errors import UserError

SUFFIX = ".mlir"
_HEADER = """\
// Edit the sched.schedule, then compile with `--schedules DIRECTORY` (docs/schedules.md).
// It computes: {nodes}
"""
# The name of an op in a schedule's text: in front of it stands a result list or the line's indentation, never a `!`.
_DIRECTIVE = re.compile(r"(?<![!\w.])sched\.(\w+)")


@dataclass(frozen=True)
class Schedules:
    """The files of a directory, by the name of their kernel, as they were when it was read."""

    directory: str
    texts: tuple[tuple[str, str], ...]

    @staticmethod
    def read(directory: "str | os.PathLike[str] | None") -> "Schedules | None":
        """All .mlir files of the directory; None stands for no directory."""
        if directory is None:
            return None
        path = Path(directory)
        if not path.is_dir():
            raise UserError(
                f"{path}: expected a directory of schedules; write one with `mlc compile MODEL --dump-schedules DIR`"
            )
        try:
            files = [file for file in sorted(path.iterdir()) if file.suffix == SUFFIX]
            texts = tuple((file.stem, file.read_text()) for file in files)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if not texts:
            raise UserError(f"{path}: expected at least one {SUFFIX} file in a directory of schedules")
        return Schedules(str(path), texts)

    def key(self) -> str:
        """The hash of the files, for cache keys."""
        return hashlib.sha256(repr(self.texts).encode()).hexdigest()

    def text(self, kernel: str) -> str | None:
        """The file of a kernel."""
        return dict(self.texts).get(kernel)

    def check(self, kernels: Collection[str]) -> None:
        """UserError for a file that belongs to no kernel of the model."""
        from mlc.support.errors import did_you_mean

        for name, _ in self.texts:
            if name not in kernels:
                raise UserError(
                    f"{self.path(name)}: expected a file named after a kernel of the model, but it has no kernel "
                    f"'{name}'{did_you_mean(name, kernels)} (kernels follow from the model, the target, -O "
                    "and the version of mlc; --dump-schedules writes those of now)"
                )

    def path(self, kernel: str) -> Path:
        """The place of a kernel's file."""
        return Path(self.directory) / f"{kernel}{SUFFIX}"

    def with_pass(self, passes: list[Any]) -> list[Any]:
        """The passes of a kernel that has a file: its schedule is read before a strategy would choose one."""
        from mlc.passes.te.read_schedules import ReadSchedulesPass

        names = [one.name for one in passes]
        wanted = ("te-add-schedule", "convert-te-to-loop")
        index = next((names.index(name) for name in wanted if name in names), len(names))
        return [*passes[:index], ReadSchedulesPass(self.directory), *passes[index:]]

    def place(self, kernel: str, error: UserError) -> str:
        """The place in the kernel's file that an error is about; its own place if it is about none there."""
        op, text = error.op, self.text(kernel)
        block = None if op is None else op.parent
        if op is None or text is None or block is None or getattr(block.parent_op(), "name", "") != "sched.schedule":
            return error.place
        return f"{self.path(kernel)}:{place_of(text, list(block.ops).index(op))}"


def place_of(text: str, index: int) -> str:
    """`line:column` of the directive of that number in a schedule's text."""
    position = -1
    for line, content in enumerate(text.splitlines(), 1):
        for match in _DIRECTIVE.finditer(content.partition("//")[0]):
            # The schedule itself comes first.
            if position == index - 1 and match[1] != "schedule":
                return f"{line}:{match.start() + 1}"
            position += match[1] != "schedule"
    return "1:1"


def write_schedules(
    directory: "str | os.PathLike[str]",
    texts: Mapping[str, str],
    origins: Mapping[str, tuple[str, ...]],
    handed: Schedules | None = None,
) -> list[Path]:
    """Write one file for each kernel; a file that was handed in is written as it was."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name, text in texts.items():
        nodes = ", ".join(dict.fromkeys(origins.get(name, ()))) or name
        own = handed.text(name) if handed is not None else None
        files.append(target / f"{name}{SUFFIX}")
        files[-1].write_text(_HEADER.format(nodes=nodes) + text if own is None else own)
    return files
