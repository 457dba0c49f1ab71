"""
The calling convention of kernels, and the runtime struct that they receive.

    i32 kernel(ptr args, ptr rt)
        args   pointers to the operands, inputs then outputs, followed by the i64 values of the symbols
        returns 0, or an error code that its caller hands on

    rt = struct { i32 version, i32 threads, ptr parallel_for, ptr pool, ptr scratch, i64 scratch_stride,
                  ptr functions, char error[256] }
        thread k's scratch begins at scratch + k * scratch_stride
        functions is the table of the functions that the program calls by name: {ptr function, ptr context} each

    i32 function(ptr context, ptr tensors, i32 inputs, i32 outputs, ptr error)
        tensors   one DLTensor (of DLPack) for each input, then for each output: row-major, on the CPU
        returns 0, or an error code, with a text of at most 256 bytes in `error`

    i32 rt->parallel_for(ptr rt, i32 (*fn)(ptr rt, ptr ctx, i32 task, i32 thread), ptr ctx, i32 tasks, i32 threads)
        runs fn for each task; a thread has one contiguous range of tasks; the first error, in task order, is returned

One rt serves one call at a time (its scratch is shared by nothing else); several may share a pool.
"""

import ctypes

ABI_VERSION = 2

# Offsets of rt's fields in bytes, for code generators.
RT_VERSION = 0
RT_THREADS = 4
RT_PARALLEL_FOR = 8
RT_POOL = 16
RT_SCRATCH = 24
RT_SCRATCH_STRIDE = 32
RT_FUNCTIONS = 40
RT_ERROR = 48
ERROR_BYTES = 256
RT_BYTES = RT_ERROR + ERROR_BYTES
FUNCTION_ENTRY_BYTES = 16

FUNCTION_FAILED = -2
"""What a kernel returns when a registered Python function has raised."""
FUNCTION_MISSING = 38
"""What a kernel returns for a function that is not registered: ENOSYS."""

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


class TensorStruct(ctypes.Structure):
    """A tensor as registered functions see it: DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


TENSOR_BYTES = ctypes.sizeof(TensorStruct)
FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(TensorStruct),
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_void_p,
)
"""A registered function."""


# DLPack's codes of element types as MLIR writes them.
_FLOATS = {"f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "i1": (6, 8)}


def tensor_type(element: str, unsigned: bool = False) -> tuple[int, int]:
    """DLPack's code and number of bits of an element type without sign: `f32`, `i8`."""
    return _FLOATS[element] if element in _FLOATS else (int(unsigned), int(element.removeprefix("i")))


def call_symbol(name: str) -> str:
    """The symbol of the function that kernels call for a registered name."""
    return "mlc_call_" + name.replace("_", "__").replace(".", "_d")


class RuntimeStruct(ctypes.Structure):
    """The rt struct as ctypes sees it; an embedder fills one in to bring its own thread pool."""

    _fields_ = [
        ("version", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("parallel_for", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("scratch_stride", ctypes.c_int64),
        ("functions", ctypes.c_void_p),
        ("error", ctypes.c_char * ERROR_BYTES),
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
  const void *functions;
  char error[256]; /* why a function that the model calls by name has failed */
} mlc_runtime;
/* A runtime on the process's thread pool (threads <= 0: one for each CPU); NULL when out of memory. */
mlc_runtime *mlc_runtime_create(int32_t threads);
/* Give each thread at least this much scratch memory; 0, or an error code. */
int32_t mlc_runtime_reserve(mlc_runtime *rt, int64_t bytes);
void mlc_runtime_destroy(mlc_runtime *rt);
"""

C_FUNCTION_DECLARATIONS = """\
#ifndef MLC_FUNCTION_DECLARED
#define MLC_FUNCTION_DECLARED
typedef struct mlc_tensor {
  void *data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t byte_offset;
} mlc_tensor;
typedef int32_t (*mlc_function)(void *context, const mlc_tensor *tensors, int32_t inputs, int32_t outputs, char *error);
#endif
"""
"""The type of the functions that a model calls by name."""
