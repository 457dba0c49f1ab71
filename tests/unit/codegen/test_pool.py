"""The thread pool: partition, errors, nesting, two callers, fork, scratch, an embedded C program."""

import ctypes
import os
import subprocess
import threading
from pathlib import Path

import pytest

from mlc.codegen.link import link_shared
from mlc.codegen.native import Library, emit_object
from mlc.codegen.pool import module as pool_ir
from mlc.codegen.pool.loaded import Pool, native
from mlc.support import abi
from mlc.targets.target import Target

THREADS = 3  # more than this machine may have CPUs: the pool has to cope


def run(rt, function, tasks: int, threads: int = 0) -> int:
    task = abi.TASK(function)
    return native().parallel_for(rt.address, ctypes.cast(task, ctypes.c_void_p), None, tasks, threads)


@pytest.mark.parametrize("threads", [1, 2, THREADS])
@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 100])
def test_each_task_runs_once_in_contiguous_ranges(threads: int, tasks: int) -> None:
    rt = Pool.get(threads).rt()
    seen: list[tuple[int, int]] = []
    assert run(rt, lambda rt, ctx, task, thread: seen.append((thread, task)) or 0, tasks) == 0
    assert sorted(task for _, task in seen) == list(range(tasks))
    by_thread = [[task for thread, task in seen if thread == k] for k in range(threads)]
    assert [task for tasks_of in by_thread for task in tasks_of] == list(range(tasks))
    sizes = [len(tasks_of) for tasks_of in by_thread][: max(tasks, 1)]
    assert max(sizes) - min(sizes) <= 1


def test_fewer_threads_than_the_runtime_has() -> None:
    rt = Pool.get(THREADS).rt()
    seen: set[int] = set()
    run(rt, lambda rt, ctx, task, thread: seen.add(thread) or 0, 12, threads=2)
    assert seen == {0, 1}


def test_the_first_error_in_task_order_is_returned() -> None:
    rt = Pool.get(2).rt()
    seen: list[int] = []

    def task(rt: int, ctx: int, task: int, thread: int) -> int:
        seen.append(task)
        return {3: 33, 8: 88}.get(task, 0)

    assert run(rt, task, 10) == 33
    assert not {4, 9} & set(seen)  # a range ends at its error
    assert run(rt, lambda *_: 0, 10) == 0


def test_a_nested_call_runs_serially_on_its_own_thread() -> None:
    rt = Pool.get(2).rt()
    seen: set[tuple[int, int, int]] = set()

    def outer(rt_address: int, ctx: int, task: int, thread: int) -> int:
        def inner(rt_: int, ctx_: int, task_: int, thread_: int) -> int:
            seen.add((thread, thread_, threading.get_ident()))
            return 0

        return run(rt, inner, 4)

    assert run(rt, outer, 2) == 0
    assert {(outer, inner) for outer, inner, _ in seen} == {(0, 0), (1, 1)}
    assert len({ident for _, _, ident in seen}) == 2


def test_two_callers_at_once() -> None:
    results: list[list[int]] = []

    def call() -> None:
        rt = Pool.get(2).rt()
        for _ in range(200):
            seen: list[int] = []
            run(rt, lambda rt, ctx, task, thread, seen=seen: seen.append(task) or 0, 6)
            results.append(sorted(seen))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert results == [list(range(6))] * 600


def test_a_child_after_fork_has_threads_of_its_own() -> None:
    rt = Pool.get(2).rt()
    run(rt, lambda *_: 0, 2)
    pid = os.fork()
    if not pid:
        seen: set[int] = set()
        for _ in range(3):
            run(rt, lambda rt, ctx, task, thread: seen.add(threading.get_native_id()) or 0, 2)
        os._exit(0 if len(seen) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run(rt, lambda *_: 0, 2) == 0


def test_the_caller_is_never_pinned() -> None:
    before = os.sched_getaffinity(0)
    rt = Pool.get(2).rt()
    masks: list[set[int]] = []
    run(rt, lambda *_: masks.append(os.sched_getaffinity(0)) or 0, 2)
    assert os.sched_getaffinity(0) == before
    if len(before) > 1:
        assert sorted(map(len, masks)) == [1, len(before)]


def test_scratch_is_per_thread_and_grows() -> None:
    rt = Pool.get(2).rt(1000)
    assert rt.struct.scratch_stride >= 1000
    assert rt.struct.scratch % 64 == 0
    assert rt.struct.scratch_stride % 64 == 0
    for thread in range(2):
        ctypes.memset(rt.struct.scratch + thread * rt.struct.scratch_stride, thread, 1000)
    rt.reserve(100_000)
    assert rt.struct.scratch_stride >= 100_000
    ctypes.memset(rt.struct.scratch, 1, 2 * 100_000)


def test_one_thread_needs_no_pool() -> None:
    rt = Pool.get(1).rt()
    assert rt.struct.threads == 1
    assert rt.struct.pool is None
    assert rt.struct.version == abi.ABI_VERSION


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_a_wrong_number_of_threads(threads: int) -> None:
    with pytest.raises(ValueError, match=f"expected threads to be 1 to 256, but got {threads}"):
        Pool.get(threads)


def test_the_serial_runtime_has_the_same_functions() -> None:
    library = Library.load([emit_object(pool_ir.module(Target.parse("native"), threaded=False))])
    names = {name for name in pool_ir.SYMBOLS if name != "mlc_process_pool"}
    assert names == set(library.symbols)
    create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(library.address("mlc_runtime_create"))
    struct = abi.RuntimeStruct.from_address(create(4))
    seen: list[int] = []
    task = abi.TASK(lambda rt, ctx, task, thread: seen.append(task) or 0)
    abi.PARALLEL_FOR(struct.parallel_for)(ctypes.addressof(struct), ctypes.cast(task, ctypes.c_void_p), None, 3, 4)
    assert seen == [0, 1, 2]


def test_targets_without_futexes_get_the_serial_runtime() -> None:
    from dataclasses import replace

    mac = replace(Target.parse("aarch64"), triple="arm64-apple-macosx14")
    assert "pthread_create" not in pool_ir.module(mac)
    assert "i64 98," in pool_ir.module(Target.parse("aarch64"))


C_PROGRAM = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
{declarations}
static int32_t task(mlc_runtime *rt, void *ctx, int32_t task, int32_t thread) {{
  ((int *)ctx)[task] += 1 + thread;
  return task == 7 ? 42 : 0;
}}
int main(int argc, char **argv) {{
  void **pools[2];
  for (int i = 1; i < argc; i++) {{
    void *lib = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {{ puts(dlerror()); return 2; }}
    mlc_runtime *(*create)(int32_t) = dlsym(lib, "mlc_runtime_create");
    int32_t (*reserve)(mlc_runtime *, int64_t) = dlsym(lib, "mlc_runtime_reserve");
    void (*destroy)(mlc_runtime *) = dlsym(lib, "mlc_runtime_destroy");
    mlc_runtime *rt = create(2);
    if (!rt || reserve(rt, 4096)) return 3;
    int counts[8] = {{0}};
    if (rt->parallel_for(rt, task, counts, 8, 2) != 42) return 4;
    for (int t = 0; t < 8; t++) if (counts[t] != 1 + t / 4) return 5;
    pools[i - 1] = rt->pool;
    destroy(rt);
  }}
  return pools[0] == pools[1] ? 0 : 6;
}}
"""


def test_two_libraries_in_a_c_program_share_one_pool(tmp_path: Path) -> None:
    data = emit_object(pool_ir.module(Target.parse("native"), shared=True))
    libraries = [str(link_shared([data], tmp_path / name)) for name in ("liba.so", "libb.so")]
    source = tmp_path / "main.c"
    source.write_text(C_PROGRAM.format(declarations=abi.C_DECLARATIONS))
    subprocess.run(["cc", "-O1", "-o", tmp_path / "main", source, "-ldl"], check=True)
    assert subprocess.run([tmp_path / "main", *libraries], timeout=20).returncode == 0


def test_the_machine_can_be_measured() -> None:
    from mlc.driver import host as machine

    assert machine.measure_peak_gflops(1, repeats=1) > 0.5
    assert machine.measure_bandwidth(1, megabytes=8, repeats=1) > 0.1
    assert machine.measure_dispatch_ns(1, times=100, repeats=1) > 0
    if len(os.sched_getaffinity(0)) > 1:
        assert machine.measure_handover_ns(rounds=200, repeats=1) > 1
    assert machine.is_near(25)
    assert not machine.is_near(180)
