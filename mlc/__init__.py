"""
mlc: a multi-dialect tensor compiler on xDSL.

`import mlc` is cheap: the public names below are imported when they are first used.
"""

from importlib import import_module
from os import PathLike
from typing import Any

from mlc import moved
from mlc.support.records import opens_records as _opens_records
from mlc.support.version import __version__ as __version__

moved.install()

# Public name -> "module:attribute", imported on first use (xdsl, onnx and numpy stay out of start-up).
_PUBLIC = {
    "load": "mlc.driver.models.load:load",
    "Model": "mlc.frontends.common.model:Model",
    "from_torch": "mlc.frontends.torch:from_torch",
    "compile": "mlc.driver.models.compile:compile",
    "build": "mlc.driver.operator.build:build",
    "lower": "mlc.driver.operator.build:lower",
    "Schedule": "mlc.frontends.te.schedule:Schedule",
    "interpret": "mlc.driver.compare.interpret:interpret",
    "quantize": "mlc.driver.quantize:quantize",
    "PassContext": "mlc.driver.pipeline.context:PassContext",
    "tune": "mlc.tuning.tune:tune",
    "records": "mlc.tuning.records.context:records",
    "Executable": "mlc.runtime.executable:Executable",
    "TensorSpec": "mlc.runtime.executable:TensorSpec",
    "load_executable": "mlc.driver.toolchain:load_executable",
    "register_strategy": "mlc.schedules.registry:register_strategy",
    "strategy": "mlc.schedules.registry:strategy",
    "WorkspacePool": "mlc.support.registered.memory_pools:WorkspacePool",
    "ConstantPool": "mlc.support.registered.memory_pools:ConstantPool",
    "register_func": "mlc.support.registered.functions:register_func",
    "get_func": "mlc.support.registered.functions:get_func",
    "list_funcs": "mlc.support.registered.functions:list_funcs",
    "remove_func": "mlc.support.registered.functions:remove_func",
    "register_compiler": "mlc.passes.graph.external.annotate.compilers:register_compiler",
    "Target": "mlc.targets.target:Target",
    "Device": "mlc.targets.device:Device",
    "show": "mlc.tools.notebook:show",
}
# What `%load_ext mlc` and `%unload_ext mlc` call in IPython.
_HOOKS = {name: f"mlc.tools.notebook:{name}" for name in ("load_ipython_extension", "unload_ipython_extension")}


def _open_records(path: str | PathLike[str]) -> Any:
    """Tuning's reader of a database, which the driver does not import."""
    return import_module("mlc.tuning.records.context").opened(path)


_opens_records(_open_records)


def __getattr__(name: str) -> Any:
    if (place := _PUBLIC.get(name) or _HOOKS.get(name)) is not None:
        module, _, attribute = place.partition(":")
        return getattr(import_module(module), attribute)
    if name == "byoc":
        return import_module("mlc.byoc")
    if name == "instruments":
        return import_module("mlc.instruments")
    if name == "graph_executor":
        return import_module("mlc.runtime.graph")
    if name == "te":
        return import_module("mlc.frontends.te")
    if name == "tuning":
        return import_module("mlc.tuning")
    raise AttributeError(f"module 'mlc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC, "byoc", "graph_executor", "instruments", "te", "tuning"])
