"""
The calling convention of kernels, and the runtime struct that they receive.

    i32 kernel(ptr args, ptr rt)
        args   pointers to the operands, inputs then outputs, followed by the i64 values of the symbols
        returns 0, or an error code that its caller hands on

    rt = struct { i32 version, i32 threads, ptr parallel_for, ptr pool, ptr scratch, i64 scratch_stride }
        thread k's scratch begins at scratch + k * scratch_stride

    i32 rt->parallel_for(ptr rt, i32 (*fn)(ptr rt, ptr ctx, i32 task, i32 thread), ptr ctx, i32 tasks, i32 threads)
        runs fn for each task; a thread has one contiguous range of tasks; the first error, in task order, is returned

One rt serves one call at a time (its scratch is shared by nothing else); several may share a pool.
"""

import ctypes

ABI_VERSION = 1

# Offsets of rt's fields in bytes, for code generators.
RT_VERSION = 0
RT_THREADS = 4
RT_PARALLEL_FOR = 8
RT_POOL = 16
RT_SCRATCH = 24
RT_SCRATCH_STRIDE = 32
RT_BYTES = 40

# The probes (codegen/probes.py writes them, runtime/peaks.py and runtime/tracing.py call them).
PROBE_CHAINS = 10
"""Independent accumulators of the FMA probe: two FMA units times a latency of 4 to 5 cycles."""
TRACE_CAPACITY = 1 << 14
"""Entries of the log of one call; later tasks are not logged."""
TRACE_LOG = RT_BYTES + 8
"""Offset in bytes of the pointer to the log in the tracing rt struct."""
CLOCK_MONOTONIC = 1
"""Linux's number of the monotonic clock."""
MAX_THREADS = 256
"""The most threads that one runtime may have: the pool has a slot of memory for each."""

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
"""The tasks of `parallel_for`, for programs that bring their own."""
PARALLEL_FOR = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32
)


class RuntimeStruct(ctypes.Structure):
    """The rt struct as ctypes sees it; an embedder fills one in to bring its own thread pool."""

    _fields_ = [
        ("version", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("parallel_for", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("scratch_stride", ctypes.c_int64),
    ]


C_DECLARATIONS = """\
typedef struct mlc_runtime {
  int32_t version, threads;
  int32_t (*parallel_for)(struct mlc_runtime *rt,
                          int32_t (*fn)(struct mlc_runtime *rt, void *ctx, int32_t task, int32_t thread),
                          void *ctx, int32_t tasks, int32_t threads);
  void *pool;
  void *scratch;
  int64_t scratch_stride;
} mlc_runtime;
/* A runtime on the process's thread pool (threads <= 0: one for each CPU); NULL when out of memory. */
mlc_runtime *mlc_runtime_create(int32_t threads);
/* Give each thread at least this much scratch memory; 0, or an error code. */
int32_t mlc_runtime_reserve(mlc_runtime *rt, int64_t bytes);
void mlc_runtime_destroy(mlc_runtime *rt);
"""
