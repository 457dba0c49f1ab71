"""Tasks that run one by one: right kernels compute the same, and shared scratch memory is noticed."""

import ctypes

import loop_kernels
import numpy as np
import pytest
from symbolic_models import PRODUCT
from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.syntax.source import parse_module
from mlc.driver.options import settings_of
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.driver.pipeline.text import parse_pipeline
from mlc.support.abi import TASK
from mlc.validation.tasks_apart import SHARED_SCRATCH, TasksApart, symbolic_parts
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

PASSES = "loop-tiles,convert-loop-to-llvm"


def tasks(rt: TasksApart, body, count: int) -> int:
    """The status of a parallel loop of a Python function of (task, thread)."""
    function = TASK(lambda _rt, _context, task, thread: body(task, thread))
    return rt._run(rt.address, ctypes.cast(function, ctypes.c_void_p).value, None, count, 2)


def test_tasks_run_backwards_on_alternating_threads() -> None:
    seen = []
    assert tasks(TasksApart(100), lambda task, thread: seen.append((task, thread)) or 0, 4) == 0
    assert seen == [(3, 0), (2, 1), (1, 0), (0, 1)]


def test_the_scratch_of_each_thread_is_full_of_nans_and_its_own() -> None:
    rt = TasksApart(100)
    struct = rt.struct
    assert struct.scratch % 64 == 0
    assert struct.scratch_stride >= 164

    def own(task: int, thread: int) -> int:
        numbers = (ctypes.c_float * 25).from_address(struct.scratch + thread * struct.scratch_stride)
        fresh = np.isnan(np.asarray(numbers)).all()
        numbers[:] = [1.0] * 25
        return 0 if fresh else 1

    assert tasks(rt, own, 3) == 0
    assert not rt.shared


def test_the_first_task_that_writes_the_scratch_of_another_thread_is_the_last() -> None:
    rt, seen = TasksApart(100), []

    def first(task: int, thread: int) -> int:
        seen.append(task)
        ctypes.c_float.from_address(rt.struct.scratch).value = 1.0
        return 0

    assert tasks(rt, first, 3) == 0 or rt.shared
    assert tasks(rt, first, 2) == SHARED_SCRATCH
    assert rt.shared


def test_the_task_of_a_loop_of_one_task_has_the_scratch_of_another_thread_than_the_first() -> None:
    rt = TasksApart(100)

    def first(task: int, thread: int) -> int:
        ctypes.c_float.from_address(rt.struct.scratch).value = 1.0
        return 0

    assert tasks(rt, first, 1) == SHARED_SCRATCH


def test_the_status_of_a_task_is_handed_on() -> None:
    assert tasks(TasksApart(0), lambda task, thread: 5 if task == 1 else 0, 3) == 5


class OneThread(ModulePass):
    """A bug: every task takes itself for one of thread 0."""

    name = "llvm-one-thread"

    def apply(self, ctx, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, llvm.FuncOp) and ".parallel" in func.sym_name.data:
                first = func.body.blocks[0]
                zero = llvm.ConstantOp(IntegerAttr(0, first.args[3].type), first.args[3].type)
                first.insert_op_before(zero, first.first_op)
                first.args[3].replace_all_uses_with(zero.result)


@pytest.mark.parametrize("text", [loop_kernels.softmax(9, 40), loop_kernels.gemm(20, 70, 24)])
def test_kernels_with_parallel_loops_are_validated(text: str) -> None:
    passes = parse_pipeline(PASSES)
    run_passes(parse_module(text, "<test>"), make_context(), passes, instruments=[ValidateInstrument()])
    if "@softmax" in text:
        bug = [*parse_pipeline(PASSES), OneThread()]
        with pytest.raises(ResultChanged, match=r"'llvm-one-thread' .* writes the scratch memory of another thread"):
            run_passes(parse_module(text, "<test>"), make_context(), bug, instruments=[ValidateInstrument()])


def test_threads_have_their_own_parts_of_further_memory() -> None:
    rt, memory = TasksApart(0), np.zeros(300, np.uint8)
    rt.add_parts(memory[64:], 64)

    def own(task: int, thread: int) -> int:
        part = memory[64 + 64 * thread :][:64]
        fresh = (part == 0xFF).all()
        part[:] = 1
        return 0 if fresh else 1

    def first(task: int, thread: int) -> int:
        memory[64] = 1
        return 0

    assert tasks(rt, own, 3) == 0
    assert tasks(rt, first, 3) == SHARED_SCRATCH
    assert not memory[:64].any()


def test_the_parts_of_symbolic_buffers_are_those_of_the_machine_code() -> None:
    # shared 4 x n, local 4 x n x 8, local 8 x (n + 1); each has a line behind it and is aligned
    n, threads = [[1, ["0"]]], [[1, ["1"]]]
    four, eight, more = [[4, []]], [[8, []]], [[1, ["0"]], [1, []]]
    rows = [[four, n], [four, n, eight, threads], [eight, more, threads]]
    assert symbolic_parts(rows, [100]) == (512, 3264 + 896)


def test_a_thread_that_writes_the_symbolic_buffers_of_another_is_noticed() -> None:
    module = parse_module(PRODUCT, "<test>")
    passes = parse_pipeline(",".join(["graph-O4", "convert-graph-to-te", "kernel-O3"]), settings_of(["threads=2"]))
    with pytest.raises(ResultChanged, match=r"'llvm-one-thread' .* writes the scratch memory of another thread"):
        run_passes(module, make_context(), [*passes, OneThread()], instruments=[ValidateInstrument()])
