"""The features of candidates by lowering them to scheduled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.dialects import loop
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.targets.target import Target
from mlc.tuning.task import Task
from mlc.tuning.tuners.encoding import Floats
from mlc.tuning.tuners.loop_features import NAMES, loop_features
from mlc.tuning.tuners.protocol import Lower

_PASSES = ("convert-te-to-loop", "loop-apply-schedule")


class LoweredFeatures:
    """Rows of `loop_features.NAMES` of a task's candidates; the estimate of one that cannot be lowered is infinite."""

    def __init__(self, task: Task, lower: Lower) -> None:
        self._task, self._lower = task, lower
        self._target = Target.parse(task.compiled_for)
        self._context = make_context()

    def __call__(self, indices: Sequence[int]) -> Floats:
        return np.array([self._row(index) for index in indices]).reshape(len(indices), len(NAMES))

    def _row(self, index: int) -> list[float]:
        try:
            module = self._lower(self._task, self._task.space[index])
            run_passes(module, self._context, _PASSES)
        except Exception:  # refused, or a bug of a strategy or of the compiler, which costs this candidate only
            return [float("inf"), *[0.0] * (len(NAMES) - 1)]
        kernel = next(op for op in module.body.block.ops if isinstance(op, loop.FuncOp))
        return loop_features(kernel, self._target)
