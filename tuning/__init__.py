"""
Search for schedules that run faster than the analytic choice: tasks, spaces, tuners, measuring, records.

A task is a kernel on a target with a number of threads. Its space holds the values of the knobs (`sched.knob`) that
the strategies write, or the user's function of a template. A tuner proposes values, a farm builds and measures them, a
database keeps what was measured, and `te-read-records` puts the best values in front of `te-add-schedule`.
"""

from importlib import import_module
from typing import Any

# Public name -> "module:attribute", or "module:", imported on first use.
_PUBLIC = {
    "extract_tasks": "mlc.tuning.extract:extract_tasks",
    "task_of": "mlc.tuning.extract:task_of",
    "candidate_module": "mlc.tuning.extract:candidate_module",
    "Report": "mlc.tuning.session.report:Report",
    "Evaluation": "mlc.tuning.farm:Evaluation",
    "cluster": "mlc.tuning.cluster:",
    "LocalFarm": "mlc.tuning.measure.local:LocalFarm",
    "Database": "mlc.tuning.records.database:Database",
    "tune_layouts": "mlc.tuning.graph_tuner.tune:tune_layouts",
    "Task": "mlc.tuning.task:Task",
    "template": "mlc.tuning.templates.template:template",
    "Template": "mlc.tuning.templates.template:Template",
    "Config": "mlc.tuning.templates.config:Config",
    "SplitEntity": "mlc.tuning.templates.entities:SplitEntity",
    "ReorderEntity": "mlc.tuning.templates.entities:ReorderEntity",
    "AnnotateEntity": "mlc.tuning.templates.entities:AnnotateEntity",
    "OtherEntity": "mlc.tuning.templates.entities:OtherEntity",
}


def __getattr__(name: str) -> Any:
    if (place := _PUBLIC.get(name)) is not None:
        module, _, attribute = place.partition(":")
        return getattr(import_module(module), attribute) if attribute else import_module(module)
    raise AttributeError(f"module 'mlc.tuning' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
