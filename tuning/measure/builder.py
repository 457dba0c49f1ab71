"""The builder: turns candidates into machine code, one after another, in a process of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeAlias

from mlc.support.errors import UserError
from mlc.tuning.measure.artefact import Artefact, Built, Signature
from mlc.tuning.measure.processes import address_space, limited_memory, settle
from mlc.tuning.results import ErrorCode, MeasureInput
from mlc.tuning.space import Values
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

CandidateMaker: TypeAlias = "Callable[[Task, Values], ModuleOp]"
"""Gives the kernel of a task and the schedule that the values stand for; UserError where the strategy refuses them."""

CANDIDATE = "mlc.tuning.extract:candidate_module"
"""The maker that farms use, as `module:function`: the fork server imports its module once, before it forks builders."""

WORN_BYTES = 1 << 31
"""Growth of a builder's address space after which a new one takes its place."""

GARBAGE = 1_000_000
"""Objects that builds have left behind, beyond which a builder collects garbage: of the order of 100 MB."""

_WARM = """
te.func @warm(%x: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x32xf32> {
  %y = te.compute "y" (%i : 8, %j : 32) reduce (%k : 32) sum {
    %a = te.read %x[%i, %k] : f32
    %b = te.read %w[%k, %j] : f32
    %c = arith.mulf %a, %b : f32
    te.yield %c : f32
  } : tensor<8x32xf32>
  te.return %y : tensor<8x32xf32>
}
"""


def maker_name(candidate: CandidateMaker | str) -> str:
    """The `module:function` of a maker; UserError for one that other processes cannot import."""
    if isinstance(candidate, str):
        return candidate
    if "." in candidate.__qualname__:
        raise UserError(f"expected a function of a module to make candidates, but got {candidate.__qualname__}")
    return f"{candidate.__module__}:{candidate.__name__}"


def maker(name: str) -> CandidateMaker:
    """The maker of that name."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def artefact_of(module: ModuleOp, target: str, threads: int) -> Artefact:
    """The machine code of a module with one te.func or loop.func, and its schedule if there is one beside it."""
    from mlc.driver.kernels.kernel import compile_kernel
    from mlc.driver.operator.build import operator_passes
    from mlc.driver.operator.source import operator_source
    from mlc.driver.options import Options
    from mlc.driver.pipeline.manager import make_context
    from mlc.driver.toolchain import functions_object
    from mlc.runtime.code import FUNCTIONS
    from mlc.targets.target import Target

    source = operator_source(module)
    options = Options(target, threads=threads)
    passes = operator_passes(source.kernel, source.schedule, options)
    code = compile_kernel(source.ops, make_context(), passes, options)
    name = source.kernel.sym_name.data
    objects = {name: code.object}
    if code.functions:
        objects[FUNCTIONS] = functions_object(code.functions, Target.parse(target), None)
    return Artefact(
        name,
        objects,
        target,
        threads,
        code.workspace_bytes,
        code.scratch_bytes,
        tuple(tuple(row) for row in code.symbolic_bytes),
        tuple(code.functions),
        tuple(code.libraries),
    )


def build(name: str, given: MeasureInput, is_default: bool, memory_bytes: int) -> Built:
    """The outcome of building a candidate with the maker of that name; with the signature of the task's default."""
    from mlc.support.errors import collected_warnings

    begin = time.perf_counter()

    def failed(error: ErrorCode, message: str) -> Built:
        return Built(None, None, error, message, time.perf_counter() - begin)

    task = given.task
    try:
        make = maker(name)
        with limited_memory(memory_bytes), collected_warnings():
            artefact = artefact_of(make(task, given.values), task.compiled_for, task.threads)
            if (form := task.alternative(given.values)) is not None:
                artefact = replace(artefact, packed=form.packed, error_growth=form.error_growth)
            signature = signature_of(task.plain_kernel) if is_default else None
    except UserError as error:
        return failed(ErrorCode.INSTANTIATION_ERROR, str(error))
    except MemoryError:
        return failed(ErrorCode.COMPILE_HOST, f"the builder needs more than {memory_bytes} bytes of memory")
    except Exception as error:  # a bug of a strategy or of the compiler costs this candidate only
        return failed(ErrorCode.COMPILE_HOST, f"{type(error).__name__}: {error}")
    return Built(artefact, signature, seconds=time.perf_counter() - begin)


def signature_of(kernel: str) -> Signature:
    """The arrays of a kernel's call, from the text of its te.func (or loop.func)."""
    from mlc.driver.operator.source import operator_source
    from mlc.tuning.measure.signature import signature

    return signature(operator_source(kernel).kernel)


def warm() -> None:
    """Load what every build needs, by one."""
    from xdsl.dialects.builtin import ModuleOp

    from mlc.driver.operator.source import operator_source
    from mlc.targets.target import target_text

    signature_of(_WARM)
    artefact_of(ModuleOp([operator_source(_WARM).kernel.clone()]), target_text("native"), 1)


def serve(connection: Connection[Any, Any]) -> None:
    """Build what is sent, until the connection ends: (maker, candidate, whether it is the default, bytes of memory)."""
    settle()
    worn = address_space() + WORN_BYTES
    gc.disable()
    while True:
        try:
            name, given, is_default, memory_bytes = connection.recv()
        except EOFError:
            return
        built = build(name, given, is_default, memory_bytes)
        if gc.get_count()[0] > GARBAGE:
            gc.collect()
        connection.send((built, address_space() > worn))  # the last: no builder works while a kernel is timed
