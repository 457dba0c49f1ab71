"""
`mlc.compile(model, specialize=True)`: an executable for each combination of input shapes, compiled at its first call.

    shapes of a call -> kept? run
                     -> compile (model cache) -> keep -> run        the least recently used one is dropped
"""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlc.driver.describe.symbolic import signature_of
from mlc.driver.models.bind_sizes import bound_to
from mlc.frontends.common.model import Model
from mlc.runtime.arrays import TensorSpec, check_names
from mlc.runtime.executable import Executable
from mlc.runtime.profile import Profile
from mlc.runtime.sizes import Sizes, text
from mlc.support.errors import UserError

DEFAULT_KEPT = 8
"""Executables that `specialize=True` keeps."""

Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input."""


def kept_of(specialize: bool | int) -> int:
    """The number of executables to keep; 0: one executable for all sizes."""
    if isinstance(specialize, bool):
        return DEFAULT_KEPT if specialize else 0
    if not isinstance(specialize, int) or specialize < 1:  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(
            f"expected specialize to be True, False or how many shapes to keep (from 1 on), but got {specialize!r}"
        )
    return specialize


class SpecializedExecutable(Executable):
    """
    A model that is compiled for each shape of its inputs, at the first call of it; some are kept.

    It is called as an Executable. A call of a shape that is kept costs what a static model's does; one of a new shape
    waits for the compiler. Calls from several threads are safe, and of one new shape compile it once.
    """

    def __init__(  # nothing is loaded yet, so Executable.__init__ is not called
        self, model: Model, keep: int, build: Callable[[Model], Executable], threads: int, executor: str
    ) -> None:
        self.threads, self.executor = threads, executor
        signature = signature_of(model)
        if not signature["symbols"]:
            raise UserError("expected a model of symbolic sizes to specialize, but all sizes of its inputs are known")
        self.inputs = tuple(TensorSpec(n, tuple(map(text, s)), d) for n, s, d in signature["inputs"])
        counts = len(signature["counted"])
        shown = signature["outputs"][: len(signature["outputs"]) - counts]
        self.outputs = tuple(TensorSpec(n, tuple(map(text, s)), d) for n, s, d in shown)
        self._model = model
        self._keep = keep
        self._build = build
        self._sizes = Sizes({**signature, "buffers": []})
        self._kept: OrderedDict[Shapes, Executable] = OrderedDict()
        self._lock, self._compiling = threading.Lock(), threading.Lock()

    def __call__(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model; `out` may give arrays to write outputs into."""
        return self._for(inputs)(inputs, out)

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """The time of each kernel for inputs of these shapes, as Executable.profile."""
        return self._for(inputs).profile(inputs, repeat)

    def clone(self) -> SpecializedExecutable:
        """One that compiles nothing anew for the shapes that are kept, and shares no state with this one."""
        other = copy.copy(self)
        other.__dict__.pop("_submitter", None)
        other._lock, other._compiling = threading.Lock(), threading.Lock()
        with self._lock:
            other._kept = OrderedDict((shapes, one.clone()) for shapes, one in self._kept.items())
        return other

    def at(self, shapes: Mapping[str, tuple[int, ...]]) -> Executable:
        """The executable for these shapes of all inputs, compiled if it is not kept: it can be saved and exported."""
        check_names(shapes, self.inputs)
        return self._executable(tuple(tuple(shapes[spec.name]) for spec in self.inputs))

    @property
    def kept(self) -> list[dict[str, tuple[int, ...]]]:
        """The shapes that are compiled now, the one that was used last at the end."""
        with self._lock:
            return [self._shapes_by_name(key) for key in self._kept]

    @property
    def report(self) -> dict[str, Any]:
        """Statistics of the compilation for the shapes that were used last."""
        return self._last().report

    @property
    def graph_json(self) -> dict[str, Any]:
        """The calls of the model and their buffers, for the shapes that were used last."""
        return self._last().graph_json

    def _last(self) -> Executable:
        with self._lock:
            if not self._kept:
                raise UserError(
                    "expected a specialized model that has run: it is compiled when it is called, or by at(shapes)"
                )
            return next(reversed(self._kept.values()))

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Refused: what is saved is for one shape, `at(shapes).save(directory)`."""
        raise UserError(
            "expected one shape to save a specialized model for, but it has many; call at(shapes).save(directory)"
        )

    def export(self, path: str | os.PathLike[str]) -> list[Path]:
        """Refused: what is exported is for one shape, `at(shapes).export(path)`."""
        raise UserError(
            "expected one shape to export a specialized model for, but it has many; call at(shapes).export(path)"
        )

    def _for(self, inputs: Mapping[str, Any]) -> Executable:
        check_names(inputs, self.inputs)
        return self._executable(tuple(np.shape(inputs[spec.name]) for spec in self.inputs))

    def _shapes_by_name(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        return {spec.name: shape for spec, shape in zip(self.inputs, shapes, strict=True)}

    def _executable(self, shapes: Shapes) -> Executable:
        """The executable for these shapes; one compilation runs at a time, and calls go on meanwhile."""
        if (found := self._find(shapes)) is not None:
            return found
        values = self._sizes.bind(shapes).values
        with self._compiling:
            if (found := self._find(shapes)) is not None:
                return found
            made = self._build(bound_to(self._model, values))
        with self._lock:
            self._kept[shapes] = made
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        return made

    def _find(self, shapes: Shapes) -> Executable | None:
        with self._lock:
            if (found := self._kept.get(shapes)) is not None:
                self._kept.move_to_end(shapes)
            return found


__all__ = ["SpecializedExecutable", "kept_of"]
