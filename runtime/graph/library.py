"""The library of a graph: the kernels of a compiled model by name, and what each may be called with."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlc.runtime.artifact import Artifact, DamagedArtifact, copy_to
from mlc.runtime.code import Code, Toolchain
from mlc.runtime.cpu import refusal
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.graph.convert import dtype_text
from mlc.support.errors import UserError, did_you_mean

Operand = tuple[tuple[int, ...], str]
"""The shape of an operand, and numpy's name of its element type."""


class GraphLibrary:
    """The machine code of a compiled model's kernels; `save` it, and `mlc.graph_executor.load_lib` what was saved."""

    def __init__(self, artifact: Artifact, code: Code, owner: object = None) -> None:
        self.artifact, self.code = artifact, code
        self._owner = owner
        """What the files are removed with."""
        self.functions = CalledFunctions(artifact.model.get("functions", ()))
        """The registered functions that the kernels call."""
        self.scratch_bytes: int = artifact.model["scratch_bytes"]
        self.workspace_bytes: int = artifact.model["kernel_workspace_bytes"]
        self.signatures: dict[str, tuple[list[Operand], list[Operand]]] = {}
        """Kernel -> its inputs and its outputs."""
        values = artifact.model["values"]
        for node in artifact.model["nodes"]:
            sides = ([_operand(values[i]) for i in node[side]] for side in ("inputs", "outputs"))
            self.signatures[node["kernel"]] = next(sides), next(sides)

    def address(self, kernel: str, inputs: Sequence[Operand], outputs: Sequence[Operand], who: str) -> int:
        """The address of a kernel that takes these operands; UserError if it is unknown or takes others."""
        if kernel not in self.signatures:
            hint = did_you_mean(kernel, self.signatures)
            raise UserError(f"expected {who} to call a kernel of the library, but there is no '{kernel}'{hint}")
        for side, wanted, got in zip(("inputs", "outputs"), self.signatures[kernel], (inputs, outputs), strict=True):
            if list(got) != wanted:
                raise UserError(f"expected {who} to have {side} {_shown(wanted)}, but got {_shown(got)}")
        return self.code.address(kernel)

    def save(self, directory: "str | os.PathLike[str]") -> None:
        """Write the library to a directory; UserError if that holds something else."""
        copy_to(self.artifact, directory)


def load_lib(directory: "str | os.PathLike[str]", toolchain: Toolchain | None = None) -> GraphLibrary:
    """
    The library that `GraphLibrary.save` or `Executable.save` wrote. Its code runs here: load only what you trust.

    Raises UserError if the directory holds none, is damaged, or needs another machine or CPU.
    """
    from mlc.runtime.executable import load_code

    if not Path(directory).is_dir():
        raise UserError(f"{directory}: expected a directory that GraphLibrary.save wrote")
    try:
        artifact = Artifact.open(directory)
    except DamagedArtifact as error:
        raise UserError(str(error)) from error
    if (reason := refusal(artifact.model)) is not None:
        raise UserError(reason)
    return GraphLibrary(artifact, load_code(artifact, toolchain))


def _operand(value: Mapping[str, Any]) -> Operand:
    return tuple(value["shape"]), dtype_text(value)


def _shown(operands: Sequence[Operand]) -> str:
    return ", ".join(f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}" for shape, dtype in operands) or "none"


__all__ = ["GraphLibrary", "load_lib"]
