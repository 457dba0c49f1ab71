"""
The code blocks of a page, run: what README.md and docs/*.md show is what happens.

    ```python NAME.py     a file that the blocks after it use (so too ```mlir NAME.mlir); a name may hold folders
    ```python             a program of its own
    ```console            `$ command` lines, each followed by what it prints; `...` stands for any lines

All blocks of a page run in one new folder, in which `examples` is the repository's; the chapters of a course run in
one folder, one after the other.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANY = "..."
_BLOCK = re.compile(r"^```(\w+)(?: +(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Difference:
    """A block of code whose result differs from the page's."""

    command: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"$ {self.command}\nexpected:\n{self.expected}\nbut got:\n{self.got}"


def run_page(text: str, folder: Path) -> tuple[str, list[Difference]]:
    """Run the blocks of a page; return the page with the current output of its commands, and the differences."""
    if not (folder / "examples").exists():  # a later chapter
        (folder / "examples").symlink_to(ROOT / "examples")
    differences: list[Difference] = []

    def run(match: re.Match[str]) -> str:
        language, name, body = match.groups()
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body)
        elif language == "python":
            (folder / "_block.py").write_text(body)
            status, output = _run("python _block.py", folder)
            if status:
                differences.append(Difference("python", "exit code 0", output))
        elif language == "console":
            return f"```console\n{''.join(_console(body, folder, differences))}```"
        return match[0]

    return _BLOCK.sub(run, text), differences


def _console(body: str, folder: Path, differences: list[Difference]) -> Iterator[str]:
    """Run each command of a block; the block as it should be."""
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        if not part.startswith("$ "):
            continue
        command = re.match(r"\$ ((?:.*\\\n)*.*)\n", part)
        assert command is not None, part
        expected = part[command.end() :]
        _, output = _run(command[1].replace("\\\n", ""), folder)
        if not matches(expected, output):
            differences.append(Difference(command[1], expected, output))
            expected = output
        yield command[0] + expected


def matches(expected: str, output: str) -> bool:
    """Whether the output is what is expected, `...` lines being any lines."""
    parts = [re.escape(line) + "\n" if line.strip() != ANY else "(?:.*\n)*?" for line in expected.splitlines()]
    return re.fullmatch("".join(parts), output) is not None


def _run(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of a shell command, with this environment's programs first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    python = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PATH": path, "PYTHONPATH": python, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
