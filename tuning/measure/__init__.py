"""
Building and measuring candidates on this machine, in processes that a candidate cannot harm.

    tuner ── fork server ─┬─ builder, one a core     candidate -> machine code
      │     (mlc loaded)  └─ runner                  arrays of the last tasks, the default kernels' outputs
      │                        └─ a child for each candidate: links it, checks its output, times it
      └── LocalFarm sends work to builders and the runner, one kind at a time

Whatever a candidate does ends at most a process of its own, which is forked anew from one that is warm.
"""

from mlc.tuning.measure.local import LocalFarm

__all__ = ["LocalFarm"]
