"""
The discardable attributes that mlc's levels exchange: their names, where they occur, and what they hold.

Attributes that an op declares itself (its properties) are documented with the op.
"""

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

# --- functions of the graph level --------------------------------------------------------------------------------

GRAPH_KERNEL = "graph.kernel"
"""On func.func, a unit: the function is a kernel, which is lowered separately."""
GRAPH_SYMBOLS = "graph.symbols"
"""On func.func, a dictionary: the range of each symbol, `#graph.symbol`, by its name."""
GRAPH_HASH = "graph.hash"
"""On a kernel: a hash of its computation. Kernels with equal hashes are equal, up to names."""
GRAPH_LAYOUTS = "graph.layouts"
"""On a kernel: the layouts of its operands and results."""

GRAPH_DEVICE = "graph.device"
"""On a graph op, a kernel, an argument or a result of a function, a string: the device (graph-plan-devices)."""
GRAPH_SCOPE = "graph.scope"
"""On the same, a string: the memory scope of the results or the argument (graph-annotate-memory-scope)."""

NARROW_BYTES = "mlc.narrow_bytes"
"""On a kernel of any level, array<i64>: the numbers of the arguments whose bytes are all from -64 to 64."""
DEALS_ROWS = "mlc.deals_rows"
"""On a kernel of any level, a unit: its threads take rows of pictures, and not channels (graph-annotate-rows)."""
EXTERNAL_COMPILER = "compiler"
"""On a kernel, a string: the external compiler that makes its code; no pass looks into it."""

MAIN_COUNTED = "mlc.counted"
"""On @main, for padded outputs: [output, axis] for each of the last outputs, which are their counts."""

# --- ops that external compilers take over -----------------------------------------------------------------------

OFFLOAD_COMPILER = "offload.compiler"
"""A string: the external compiler that takes over the op (graph-annotate)."""
OFFLOAD_PATTERN = "offload.pattern"
"""A string: the pattern that the op was matched by."""
OFFLOAD_MATCH = "offload.match"
"""An integer: the match that the op is a part of."""
OFFLOAD_REGION = "offload.region"
"""An integer: the region that the op will be a part of (graph-merge-regions)."""

# --- kernels: te.func and loop.func ------------------------------------------------------------------------------

KERNEL_SIZES = "sizes"
"""An array of index maps: the shape of each input and output, over the kernel's index arguments (its symbols)."""
KERNEL_TYPICAL = "typical"
"""array<i64>: the typical value of each symbol, for which schedules are chosen."""
KERNEL_LEAST = "least"
"""array<i64>: the smallest value of each symbol."""
KERNEL_SYMBOLS = "te.symbols"
"""Of a kernel of the te API: the range of each symbol, by name."""
KERNEL_ARGUMENTS = "te.arguments"
"""Of a kernel of the te API: what each size argument holds, as expressions of the symbols."""
KERNEL_UNSIGNED = "te.unsigned"
"""Of a kernel of the te API, array<i64>: the numbers of the inputs and outputs whose integers are unsigned."""
KERNEL_BUFFERS = "te.buffers"
"""
How the arrays of a kernel lie in memory, for each input and output: a unit (contiguous), or a dictionary of `strides`
(a map over the index arguments) and `offset`, both in elements, and `align` in bytes.
"""

KERNEL_KNOBS = "mlc.knobs"
"""On te.func, a dictionary: the strategy of its schedule by name, and values of the strategy's knobs."""
KERNEL_TEMPLATE = "mlc.template"
"""On te.func, a string: the call of the user's function that schedules it, `products:gemm(512, 512, 512)`."""

# --- stages, loops, buffers --------------------------------------------------------------------------------------

STAGE_NO_INLINE = "no_inline"
"""On te.compute, a unit: te-inline does not inline the stage, because its elements are read many times."""
EXP_NONPOSITIVE = "te.nonpositive"
"""On math.exp, a unit: no operand is above 40; of a row minus its maximum, none is above 0. That takes fewer steps."""
LOOP_WORK = "work"
"""On a parallel loop.for, an index map over the kernel's symbols: the product of its expressions is the loop's work."""
LOOP_LEAST_WORK = "least"
"""On a parallel loop.for, an integer: the `work` below which the loop runs on one thread."""
LOOP_COLD = "cold"
"""On loop.for, a unit: the loop runs rarely; it is outlined to a function that is not inlined."""
LOOP_PREFETCH = "prefetch"
"""On loop.for, an integer: the data of the next iteration, of nested marked loops together, is prefetched into L2."""
LOOP_STREAM = "stream"
"""On loop.for, an integer: each iteration reads many planes of a tensor that exceeds L2."""
LOOP_CLIP = "clip"
"""On a loop.for of a reduction, an integer: iterations that add only zeros of a padded operand are left out."""
LOOP_SKIP = "skip"
"""On a loop.for over taps, an integer: taps that lie in the padding for a whole tile are left out."""
LOOP_BAND = "band"
"""On a loop.for, an integer: iterations whose values no one needs, as masked reads say, are left out."""
LOOP_TAIL = "tail"
"""On a loop.for of a tile, an integer: the last tile is computed whole, and its accesses are predicated."""
LOOP_OFFSET = "mlc.offset"
"""On loop.alloc of static sizes, an integer: where its bytes begin in a thread's scratch, or in the workspace."""
LOOP_SLOT = "mlc.slot"
"""On loop.alloc of symbolic sizes, an integer: the number of the slot, a piece of memory of this buffer's size."""
LOOP_SHARES = "mlc.shares"
"""On loop.alloc of symbolic sizes, an integer: the slot in which the buffer lies, of another buffer's size."""

# --- calls and schedules -----------------------------------------------------------------------------------------

CALL_SYMBOLS = "symbols"
"""On graph.call, `#graph.dims`: the sizes of the kernel's symbols s0, s1, .. at the call."""
CALL_ORIGINS = "origins"
"""On a call of a kernel, an array of strings: the names of the model's nodes that the kernel computes."""
SCHEDULE_STRATEGY = "strategy"
"""On sched.schedule, a string: the strategy that wrote the schedule."""

# --- @main on buffers --------------------------------------------------------------------------------------------

MAIN_INPUTS = "mlc.inputs"
"""On @main, an integer: the number of inputs, which are its first arguments."""
MAIN_OUTPUTS = "mlc.outputs"
"""On @main, an integer: the number of outputs, the arguments after the inputs."""
MAIN_PLAN = "mlc.plan"
"""On @main, a dictionary: the figures of the memory plan, in bytes."""
MAIN_POOLS = "mlc.pools"
"""On @main, an array of {name, kind, offset, used, bytes}: the memory pools, and the bytes used of each."""
MAIN_SYMBOLS = "mlc.symbols"
"""On @main with symbolic sizes, an array of {name, range}: its symbols, in the order of its arguments."""
MAIN_SHAPES = "mlc.shapes"
"""On @main with symbolic sizes, an array of tensor types: those of the inputs and outputs."""
MAIN_BUFFERS = "mlc.buffers"
"""On @main with symbolic sizes: for each buffer its size in bytes, and the numbers of the buffers directly below it."""
MAIN_SCRATCH = "mlc.scratch"
"""On memref.view, an integer: the view begins behind all buffers, where the kernels' own workspace is."""

# --- native kernels: llvm.func -----------------------------------------------------------------------------------

NATIVE_SCRATCH_BYTES = "mlc.scratch_bytes"
"""An integer: the bytes of scratch memory that the kernel needs per thread."""
NATIVE_CALLS = "mlc.calls"
"""On a declared function: the registered name that it stands for."""
NATIVE_LIBRARIES = "mlc.libraries"
"""On a declared function: the libraries that define it."""
NATIVE_SIGNATURE = "mlc.signature"
"""A function type: the buffers that the kernel reads and its size arguments, to the buffers that it writes."""
NATIVE_WORKSPACE_BYTES = "mlc.workspace_bytes"
"""An integer: the bytes of workspace that the kernel needs for buffers of static sizes."""
NATIVE_SYMBOLIC_BYTES = "mlc.symbolic_bytes"
"""An array of index maps: for each buffer of symbolic sizes, the factors of its size in bytes."""

# --- what the text may hold --------------------------------------------------------------------------------------

_KERNEL = frozenset({KERNEL_SIZES, KERNEL_TYPICAL, KERNEL_LEAST})

UNPREFIXED: dict[str, frozenset[str]] = {
    "te.func": _KERNEL,
    "loop.func": _KERNEL,
    "te.compute": frozenset({STAGE_NO_INLINE}),
    "loop.for": frozenset(
        {LOOP_WORK, LOOP_LEAST_WORK, LOOP_COLD, LOOP_PREFETCH, LOOP_STREAM, LOOP_CLIP, LOOP_SKIP, LOOP_BAND, LOOP_TAIL}
    ),
    "graph.call": frozenset({CALL_SYMBOLS, CALL_ORIGINS}),
    "runtime.call": frozenset({CALL_SYMBOLS, CALL_ORIGINS}),
    "sched.schedule": frozenset({SCHEDULE_STRATEGY}),
}
"""Op name -> the discardable attributes above that it may have; names with a prefix, `mine.note`, need no entry."""


def texts_of(op: Operation, name: str) -> list[str]:
    """The texts of an attribute that is a string, or an array of strings; none where the op lacks it."""
    attribute = op.attributes.get(name)
    items = attribute.data if isinstance(attribute, ArrayAttr) else [attribute]
    return [item.data for item in items if isinstance(item, StringAttr)]


def counted_outputs(main: FuncOp) -> list[list[int]]:
    """[output, axis, output that is its count] for each padded output, by the attribute MAIN_COUNTED."""
    pairs: Any = main.attributes.get(MAIN_COUNTED, ArrayAttr([]))
    first = len(main.function_type.outputs) - len(pairs.data)
    return [[*(n.value.data for n in pair.data), first + k] for k, pair in enumerate(pairs.data)]
