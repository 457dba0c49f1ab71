"""
The thread pool, as LLVM IR text: part of every exported library, and JIT-loaded once by Python.

    caller (thread 0)                             worker k
      lock (try; busy or nested -> run serially)    spin on its slot's epoch, then sleep in a futex
      for each worker: write its range, ++epoch     run its range of tasks, stop at the first error
      fence; wake those that sleep                  done = epoch
      run the first range
      wait until every done == epoch
      unlock, return the first error

A slot is two pairs of cache lines: the caller writes one, the worker the other, and no line is written by two workers.
There is no lock and no shared counter per task. The pool's memory is one mapping marked MADV_WIPEONFORK: in a child
after fork it is zero again, which is a pool without workers, and the first call makes new ones.

Workers are pinned to the CPUs of the process's affinity mask, in its order, beginning after the CPU that the caller is
on; when the caller has moved by the time that sleeping workers are woken, they are pinned anew. The caller never is.

Where there are no Linux futexes (macOS, wasm) the serial version below has the same functions.
"""

from mlc.codegen.pool.dispatch import COMMON, DISPATCH, SERIAL
from mlc.codegen.pool.workers import WORKERS_TEXT
from mlc.support import abi
from mlc.support.abi import MAX_THREADS
from mlc.targets.cost.thresholds import SPIN_NANOSECONDS
from mlc.targets.target import Target

MAX_CPUS = 1024
# The pool's memory, in bytes from its start; each group on cache lines of its own.
LOCK = 0
WORKERS, SPIN, BASE, CPUS, KEY, OWNER_PID = 128, 132, 136, 140, 144, 148
CPU_LIST = 256
SLOTS = CPU_LIST + 4 * MAX_CPUS
SLOT_BYTES = 512
POOL_BYTES = SLOTS + SLOT_BYTES * MAX_THREADS
# A slot: what the caller writes, then what the worker writes.
EPOCH, FN, CTX, RT, FIRST, LAST = 0, 8, 16, 24, 32, 36
DONE, RESULT, SLEEPING, TID, POOL_OF, INDEX = 256, 260, 264, 268, 272, 280

SPIN_SAMPLE = 2000
"""Pauses that a new pool times, to know how many `SPIN_NANOSECONDS` are: some 50 microseconds of them."""
POLLS = 20_000
"""Pauses for which a caller waits for a worker before it yields its CPU, which that worker may be waiting for."""
# Threads take no signals but those that report a fault of their own: ILL, TRAP, BUS, FPE, SEGV.
SIGNAL_MASK = ~sum(1 << (n - 1) for n in (4, 5, 7, 8, 11)) & (2**64 - 1)

FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
SYMBOLS = ("mlc_parallel_for", "mlc_runtime_create", "mlc_runtime_reserve", "mlc_runtime_destroy", "mlc_process_pool")

# Of all unique definitions in all loaded libraries the dynamic linker keeps one, even under dlopen(RTLD_LOCAL); such
# a library is never unloaded either, so its workers' code stays. LLVM IR has no word for it.
_UNIQUE = """\
module asm ".type mlc_process_pool, @gnu_unique_object"
module asm ".size mlc_process_pool, 8"
module asm ".section .bss.mlc_process_pool, \\22aw\\22, @nobits"
module asm ".balign 8"
module asm "mlc_process_pool: .zero 8"
@mlc_process_pool = external global ptr, align 8
"""
_PLAIN = "@mlc_process_pool = global ptr null, align 8\n"
_DECLARE_PAUSE = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}
_GETTID = {"x86_64": 186, "aarch64": 178, "riscv64": 178}


def module(target: Target, *, threaded: bool = True, shared: bool = False) -> str:
    """
    Return the runtime's LLVM IR text for a target; `shared` for an object that goes into a shared library.

    A target that is not Linux gets the serial version, whatever `threaded` says.
    """
    architecture = target.architecture
    threaded = threaded and "linux" in target.triple and architecture in FUTEX_NUMBER
    values: dict[str, object] = {k: v for k, v in {**vars(abi), **globals()}.items() if isinstance(v, int)}
    values |= {
        "PAUSE": target.pause,
        "DECLARE_PAUSE": _DECLARE_PAUSE.get(architecture, ""),
        "FUTEX": FUTEX_NUMBER.get(architecture, 0),
        "GETTID": _GETTID.get(architecture, 0),
        "MASK_WORDS": MAX_CPUS // 64,
        "MASK_BYTES": MAX_CPUS // 8,
        "SPIN_WORK": SPIN_NANOSECONDS * SPIN_SAMPLE,
        "POOL_POINTER": _UNIQUE if shared else _PLAIN,
    }
    text = COMMON + (WORKERS_TEXT + DISPATCH if threaded else SERIAL)
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return f'target triple = "{target.triple}"\n{text}'
