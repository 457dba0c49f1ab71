"""
Proportions and limits of the cost model, of schedules and of passes that are no machine's.

Each says its unit, and where it comes from. "Not measured apart" stands for a number that was chosen together with
the rule it belongs to, by the time of whole models (benchmarks/run.py: resnet50, squeezenet, EfficientNet-Lite0,
PP-OCRv4, MiniLM on a Zen 5 core); change one, and these are what to run again.
"""

# --- caches ---------------------------------------------------------------------------------------------------------

L2_SHARE = 0.5
"""Part of L2 that a schedule fills with what it uses again; the rest is for what streams past. Not measured apart."""
L2_SHARE_OF_TRANSFORMS = 0.9
"""Part of L2 that Winograd's transformed tiles may fill; little else is read at the time. Not measured apart."""
L2_SHARE_UNPACKED = 0.6
"""Part of L2 above which a plain right operand of a product is packed. Not measured apart."""
L3_SHARE = 0.25
"""Part of L3 that one kernel can count on; other cores, and the rest of the model, use it too. Not measured apart."""

# --- register tiles -------------------------------------------------------------------------------------------------

MOST_VECTORS = 16
"""Vectors of a register tile that are tried: 32 registers hold 16 sums and their 16 operands."""
MOST_ROWS = 31
"""Rows of a register tile that are tried: 32 registers hold no more sums beside an operand."""
L2_RATE_OF_TILES = 0.5
"""Part of the rate of plain reads at which L2 feeds register tiles. Source: 1x1 convolutions of 128 channels a group
on planes of 43x45 (Zen 5): tiles of 2x9 vectors run at 56 % of the peak, as half of the rate says, 13x2 at 86 %."""
L2_RATE_OF_PACKED_TILES = 0.74
"""Part of the rate of plain reads at which L2 feeds register tiles whose second operand is packed. Source:
benchmarks/microkernels.py on Zen 3, tiles of 2x4 vectors with B from L2."""
FULL_REGISTERS = 1.06
"""The time of a tile whose sums, vectors and scalar take all registers, over that of one which leaves some. Source: Zen
3, where 4x3 vectors take 1.06 to 1.09 of the time of 6x2 in convolutions, 1.14 in a product (micro-kernels do not)."""
WIDENING_OPERATIONS, WIDENED_ROWS = 2, 16
"""Operations that make a vector of bytes or f16 one of f32 in each step of a register tile; rows from which they count.
Source: on Zen 3 products of 23 to 110 rows take 1.1 of the time with 4x2 instead of 6x2 vectors, 1.4 with 11x1, and
1.15 with 2x4 instead of 5x2; on Zen 4, 7 rows take 1.08 of the time with 7x2 instead of 4x6."""
WIDENING_CYCLES, WIDENED_BITS = 1.3, 512
"""Cycles that widening a vector of narrow elements adds to a step, and the bits of a vector from which on it does (on
shorter vectors the operations alone count). Source: products of 24 to 120 rows on Zen 4, 0.91 to 0.95 of the time with
tiles of one vector (18 to 30 rows) instead of two (12 to 14 rows)."""
OPEN_ROWS = 6
"""Rows of a register tile, at least, where their number is known at run time. Not measured apart."""
DOT_ROWS = DOT_COLUMNS = 4
"""The tile of sums over lanes, at most: sums fill half of the registers. Source: convolutions of one output channel on
Zen 3; of 64 channels and 3 x 3 windows, 4 x 2 sums take 318 us, 4 x 3 take 430 and 4 x 4 take 630."""
DOT_LINES = 4
"""Vectors of one column that a tile of sums over lanes takes for a single row, where a vector fills a cache line: one
stream of 4 lines instead of 4 streams. 1 x 256 x 256 takes 1.2 us instead of 2.0, 1 x 128 x 784 1.8 instead of 2.1
(Zen 5, AVX-512, aligned operands); with vectors of half a line 4 columns are as fast or faster (4.8 us as 4.8 with
1 x 256 x 256, 10.1 instead of 12.0 with 1 x 256 x 784)."""
SLIDING_REGISTERS = (3, 8)
"""Part of the registers, 3 of 8, that hold the sums of a sliding window; taps and shared loads take the others."""
WOVEN_REGISTERS = 2
"""Registers beside the sums in which words of bytes are woven: the order of the lanes, and a second word. Source: a
depthwise window of 3 x 3 over 16 channels of 320 x 320 bytes on Zen 4, where 30 rows move registers at each step."""
PAIR_REGISTERS = 2
"""Registers beside the sums where bytes are multiplied by pairs and the reduction has several loops: a vector of
products, and the vector of ones by which they are summed. Source: on Zen 3 convolutions of 3 x 3 over bytes take 0.76
to 0.79 of the time with 5x2 and 4x2 vectors instead of 6x2; in products of matrices there is no difference."""
SLIDING_REGISTERS_WIDE = (5, 8)
"""Part of the registers, 5 of 8, that hold the sums of a sliding window over several vectors of channels, which are the
last axis: its loads are shared less than in `SLIDING_REGISTERS`. Source: windows of 3 x 3 to 7 x 7 over 24 to 2048
channels on Zen 4, tiles of 5 to 12 pixels."""
SLIDING_VECTORS = (2, 4)
"""Vectors of channels of such a tile, the better first where L1 holds the pixels of a row. Source: the same; two are as
fast as one or up to 1.6 times faster."""
SLIDING_STREAMS = (2, 1)
"""How many times the pixels that such a tile reads in a row L1 must hold. Source: the same; 512 channels of 28 x 28
take 311, 186 and 161 us with 1, 2 and 4 vectors, 1024 of 14 x 14 take 235, 140 and 88; in blocks, with transforms, 208
and 133. Windows of 5 and 7 over 1024 channels, whose rows L1 does not hold, are faster in blocks."""
PLANAR_VECTORS, PLANAR_ROWS = 4, 4
"""Vectors of pixels of a row, and rows, at most, of a tile of a window over planes. Source: windows of 3 x 3 at strides
1 and 2 on planes of 14 to 224 pixels on Zen 4, tiles of 1 to 7 rows and 1 to 14 vectors; 64 x 28 x 28 takes 14.0 us
with 4 x 2, 15.6 with 6 x 2, 16 x 56 x 112 takes 24.4 with 3 x 4, 28.2 with 2 x 7."""
SKIPPED_DILATION = 6
"""Rate of dilation from which on taps in the padding of a picture of open sizes are left out, tile by tile. Source: 128
channels of 30 x 31 on Zen 4 at rate 18 take 0.34 of the time, at rates 6 and 12 what the peers take; less not tried."""
SHARED_LANES_VECTORS = 5
"""Vectors of lanes up to which two pixels share the vector that channels leave half empty: of more, a half is little.
Not measured apart."""
SHARED_LANES_PAIRS = 2
"""Pairs of such rows that registers hold, at least. Source: dense layers of 28 and 36 units, whose pairs take 7 and 9
vectors of AVX2, take 0.50 and 0.59 of the time without pairs, on Zen 3."""
LEAST_DOT_DEPTH = 16
"""Terms of a sum over lanes, at least: one vector of AVX-512. Not measured apart."""
LEAST_DEEP_DOT_DEPTH, DEEP_DOT = 8, 512
"""Terms that the innermost loop of a sum over lanes has, at least, if the whole sum has `DEEP_DOT` terms: those of one
vector of AVX2. Source: convolutions of one output channel on Zen 3; 1x1 ones take 0.5 of the time of rows with 512
channels, 1.2 of it with 256; windows of 3 x 3 with 64 and 128, 0.8."""
STRIDED_LANES = 4
"""Elements between neighbouring lanes, at most, that vectors are loaded and permuted for: a vector needs as many loads.
Steps of 3 and 4 not measured apart."""
LEAST_LANES = 8
"""Lanes below which no copy, packed panel or stream of whole vectors pays: one vector of AVX2."""
MATRIX_LEAST_ROWS = 4
"""Rows below which vectors multiply, not a matrix unit: a product takes as long for one row as for 16, and dot products
of 16 words a cycle take 16 cycles for a row of 16 words. Reckoned, not measured: no machine with AMX was at hand."""
MATRIX_LEAST_WORDS = 4
"""Words of a sum below which vectors multiply, not a matrix unit. Reckoned, not measured."""

# --- loops ----------------------------------------------------------------------------------------------------------

POINTWISE_VECTORS = 4
"""Vectors that one step of a pointwise loop or of a reduction takes: enough independent chains to hide the latency of
an FMA. Not measured apart."""
SQUARES_IN_A_ROW, BLOCKED_SQUARES_ROWS = 8, 128
"""Squares along the longer axis of a block that is transposed at a time, and the extent of the shorter axis up to which
there are such blocks. Source: pictures of 64 to 128 channels between channels-first and channels-last on Zen 1, which
take 0.47 to 0.98 of the time; 256 to 320 channels, and matrices of 300 rows, would take 0.9 to 1.4. Vectors of 512 bits
need none: their squares have whole lines."""
REDUCTION_ROWS = 8
"""Rows of a reduction whose lanes are spatial that stay in registers. Not measured apart."""
PAD_VECTORS = 8
"""Vectors of a padded row above which its copy is a loop of `POINTWISE_VECTORS`. Not measured apart."""
PAD_ROWS = 8
"""Rows of a padded picture, at most, that one masked tile copies. Not measured apart."""
SLIDING_TAPS = 7
"""Taps of a sliding window that are unrolled: windows of models have up to 7."""
WINDOW_TAPS = 16
"""Taps of a pooling window along a row that are unrolled. Not measured apart."""
WINDOW_ROWS, WINDOW_VECTORS = 4, 2
"""Rows, and vectors of a row, whose pooling windows one tile computes. Zen 4, 3x3 on 98x82: 4 x 2 takes 0.59 of 1 x 4,
2 x 2 0.75, 4 x 1 0.72, 8 x 1 0.77, 2 x 4 0.66."""
SLIDING_UNROLLED = 28
"""Products of taps and channels of a group that are unrolled: 7 taps of 4 channels. Not measured apart."""
CLIPPED_TAPS = 7
"""Taps of a window's row or column, at most, that are products of their own: each is a loop nest in the code."""
KEPT_TAPS = 9
"""Taps of a window, at most, that are loop nests of their own."""
CLIPPED_FEW_ROWS = 3
"""Rows of a picture, at most, that run inside of the taps even where the weights fit L2. Source: 3x1 and 1x3 windows on
2x2 pictures on Zen 4, weights from memory: 38 to 41 GFLOP/s instead of 28 to 32."""
CLIPPED_DEPTH = 32
"""Products of a tap, at least, for each time that its sums go through memory. Not measured apart."""
NARROW_VECTORS = 2
"""Vectors of a register tile's columns where they come from L2 for each tile of rows. Source: handwritten
micro-kernels on Granite Rapids; among them, 12x2 and 14x2 lose least with B in L2."""
CLIPPED_SHARE = 0.96
"""Part of the taps inside of the picture, at most, for which the others are left out. Source: windows of 5 x 5, 7 x 7,
1 x 7 and 7 x 1 on pictures of 8 to 41 pixels on Zen 4: 0.69 to 0.96 of the time with the taps; depthwise
ones 0.84 to 1.02."""
CLIPPED_SUM_CYCLES, CLIPPED_FREE_BITS = 3.0, 512
"""Cycles in which a vector of sums goes to memory and back after each tap. They count only where neighbouring taps read
neighbouring elements, and vectors have fewer than `CLIPPED_FREE_BITS` bits. Source: windows of 5 x 5, 7 x 7, 1 x 7 and
7 x 1 over 32 to 192 channels on Zen 3 take 0.8 to 1.14 of the time of a padded copy: 0.94 at 96 of 21 x 21, 1.14 at 32
of 51 x 29. Dilated ones of 3 x 3 take 0.9 to 0.96 of it. With AVX-512, or where taps lie apart, the share alone
decides, as it was measured."""
CLIPPED_LEAST_TAPS = 5
"""Rows of a depthwise window from which a copy of the whole picture pays: 5 rows of taps gain, at dilation 6 on 28x28
and 10 on 40x40, where 3 rows at dilation 12 lose on 28x28 and 32x32. Source: single calls on Zen 5, 1 thread."""
PLANAR_TASKS = 4
"""Tasks a thread, at least, of a window over planes: below, planes are parted. Not measured apart."""
CLIPPED_TASKS = 2
"""Tasks a thread, at least, of a depthwise convolution whose padding is left out. Not measured apart."""
GROUPS_APART = 2
"""Groups side by side in the lanes above which a group's channels are unrolled with the taps. Not measured apart."""

# --- panels and streams ---------------------------------------------------------------------------------------------

PACKED_PANELS = 8
"""Panels of the right operand, at least, for which a copy of each pays. Not measured apart."""
PACKED_DEPTH = 128
"""Terms of each sum, at least, for which it pays. Not measured apart."""
PACKED_ROW_TILES, PACKED_LONG_ROW_TILES, PACKED_LONG_BITS = 4, 16, 512
"""
Row tiles that share a copied panel, at least, those where vectors are long, which L2 gives while a tile adds, and that
length in bits.

Source: 1x1 convolutions of 24 to 768 channels and products of 8 to 1024 rows, one thread of Zen 4. With AVX-512 4 to 14
row tiles take 0.82 to 1.01 of the time without copies (38 shapes), 18 to 70 take 0.97 to 1.08 (14 shapes). With AVX2,
whose tiles have half the rows, 4 and more take up to 2.2 of the time.
"""
STREAMED_VECTORS, STREAMED_DEPTHS, STREAMED_LEAST_LANES = 4, (8, 4, 16), 256
"""
Vector times plain matrix: vectors of a tile of columns; rows of the matrix in a block, the better first; columns
from which on rows stream. Source: 512 to 2048 rows of 1000 to 4104 columns on one thread of Zen 3, where blocks of 4
and 8 rows take 0.33 to 0.79 of the time of tiles of 7 vectors over all rows, and 16 rows 0.5 to 0.95; with 40 to 128
rows of 256 to 512 columns, blocks of 8 take 0.78 to 0.97.
"""
PAGE_BYTES = 4096
"""
Bytes between rows of a right operand from which on tiles of its columns are computed in runs, from a copy of the run.

Each row is then on a page of its own, and rows that lie a power of 2 apart evict each other's lines from L1. Source:
1x1 convolutions between planes, first layers as products of patches, one thread of Zen 3: planes of 32 x 32 to 256 x
256 pixels and 16 to 96 channels take 0.34 to 0.89 of the time without runs, those of 77 x 91 or 80 x 90 0.96 to 1.01.
"""
PACKED_L2_SHARE = 8.0
"""Rows of a panel by the power of 2 in their distance, in bytes, as a multiple of L2 from which on they push each other
out of L2, so that 4 row tiles share a copy with AVX-512, too. Source: 768 rows of 4096 take 1.07 of the time without
copies, 768 rows of 2048 0.86, on the same core."""
WIDENED_PANEL_ROWS, WIDENED_F16_ROWS = 24, 80
"""Rows from which a copy of each panel in f32 pays, of bytes or bf16, and of f16, which one instruction widens. Source:
products of 24 to 197 rows, depths of 192 to 768, on Zen 3. Where another thread of the core computes, bytes take 0.77
to 0.91 of the time, bf16 0.84, f16 0.89 to 0.97; where the core is alone, 0.98 to 1.08, most with fewest rows. Where
the data path is half a vector wide, f16 counts as the others do: 39 rows take 0.80 of the time on Zen 1."""
WIDENED_VECTORS, WIDENED_L1 = 2, 2.0
"""Vectors of a panel, and the part of L1, at most, that they take up as f32. Source: the same; depths of 1536 gain
nothing."""
STREAM_ROWS = 512
"""Rows up to which waiting for a panel from beyond L2 shows, so that it is prefetched. Not measured apart."""
STREAM_SHARED_ROWS = 64
"""Rows up to which threads that stream panels should get equal shares of them. Source: MiniLM and text recognition on
two threads."""
WALK_DEPTH = 3
"""Blocks of channels, at least, through which a 1x1 window hops so that prefetching its planes pays."""
PREFETCH_BURST = 8
"""Lines, at most, that a row fetches at once for a load of the next panel, instead of a line in each of its steps.
Source: five networks of 19 to 29 million weights on Zen 3, which take 0.98 of the time with it on two threads, 1.00 on
one. With 24 ResNet-50 takes 1.03 of the time: its weights come from memory, and loads wait for bursts. Not measured
with AVX-512."""
SURE_ROWS = 2
"""Rows that surely share a panel where their number is known at run time."""
TRANSPOSED_ROWS = 24
"""Rows for which a transposed copy of the right operand costs less than sums over lanes. Not measured apart."""
LEAST_DEPTH_BLOCK = 64
"""Terms of a block of the reduction, at least: a sum's way to memory and back takes as long as a few of them."""

# --- grids ----------------------------------------------------------------------------------------------------------

SCORED_POWERS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.07)
"""Powers of the typical size at which a symbolic extent is scored: of 256 pixels, 28 to 377. Source: from the
power 0.5 on, a conformer of 300 frames takes 1.1 of the time on two threads; other powers were not measured apart."""
COLUMN_PARTS_PER_THREAD = 4
"""Parts of the columns that are tried, for each thread: more make tasks shorter than their start."""
PRODUCT_PARTS_PER_THREAD = 2
"""Parts of the rows, and of the columns, of a large product that are tried, for each thread."""
OPEN_BLOCK = 32
"""Rows of a block, at most, if their number is known only at run time: the block's loop has a constant trip count, and
also runs over masked rows past the end. Source: text detection on pictures of open sizes."""
OPEN_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Tiles of a block that are tried for a product of two symbolic sizes; up to `OPEN_BLOCK`."""
OPEN_TASK_CYCLES = 20000.0
"""Cycles of a task, at least, where the number of rows is known at run time: ten times what handing it over takes."""
GOOD_BALANCE = 0.9
"""Part of the time that threads have work, from which on no further loop is shared out. Not measured apart."""

# --- matrices that an index chooses -------------------------------------------------------------------------------

CHOSEN_ELEMENT, WEIGHT_ELEMENT = 20, 8
"""
Sums in the time of copying an element of a matrix that an index chooses, and in that of reading one from memory.

Source: 15 products of 2 to 512 rows with 4 to 64 matrices of 256 x 256 to 1024 x 1024, one thread of Zen 4: one product
with all matrices takes 0.21 to 0.79 of the time where this says that it pays, and 1.3 to 4.3 where it says not.
"""
MOST_COPIES = 16
"""Copies of each of the matrices that indices choose, in the mean, at most. Not measured: it bounds the memory."""

# --- attention ------------------------------------------------------------------------------------------------------

LEAST_QUERIES = 8
"""Queries below which an attention's kernels are faster apart: a strip has queries in its lanes, a vector of AVX2."""
STRIP_VECTORS = 4
"""Vectors of queries in a block, at most. Not measured apart."""
QUERY_BLOCK_START = 0.05
"""
What a block of queries takes besides its vectors, in vectors: each block reads keys and values again.

Source: 415 queries and keys of 64 channels, one head, two threads of Zen 4: blocks of 1, 2, 3, 4 and 5 vectors, of
which the busier thread has 13, 14, 15, 16 and 15, take 0.84, 0.88, 0.95, 1.00 and 0.94 of the time of 4.
"""
SPILLED_STRIPS = 2.0
"""
Size of the strips of two vectors of queries, as a multiple of L2, up to which they are better than one vector's.

Source: one thread of Zen 5 (L2 of 1 MiB), 64 channels: 0.94 of the time of one vector at 4,096 and 8,192 keys (1 and
2 MiB), 1.17 at 16,384 keys.
"""
STRIPS = 2
"""Strips of keys x queries that a block has at once: the scores, and what follows from them."""
STRIP_KEYS = 4
"""Keys that one step of a pass over the strip takes. Not measured apart."""
LEAST_KEYS = 16
"""Keys of a block of values, at least. Not measured apart."""
BAND_KEYS = 32
"""
Keys that are taken or left together where a mask allows a band of keys, at least: blocks of the second product.

Fewer skip more of the masked keys, but load and store the sums more often. Source: causal attention over 128 to 2048
keys, `AMORTISING_STEPS`.
"""
BAND_VECTORS = 2
"""Vectors of queries in a block under such a mask, at most: more see more masked keys. Source: the same."""
OPEN_VECTORS = 2
"""
Vectors of queries in a block where their number is open: a last block of few queries costs as much as a whole one.

Source: one thread of Zen 5, 6 heads of 64: 1.00 to 1.16 of the time with the number known, from 128 queries on.
"""
COPIED_QUERIES = 64
"""Queries that share a contiguous copy of keys or values, at least. Source: MiniLM of 128 words."""

# --- graphs ---------------------------------------------------------------------------------------------------------

PADDING_WASTE = 0.25
"""Padding that costs less than this part of the work is taken for a full block. Not measured apart."""
SHARED_VECTOR_COST = 1.12
"""Time of a convolution in blocks of half a vector of channels, where two pixels share each vector, over the time of
the same products in blocks that fill a vector. Source: EfficientNet-Lite0's convolutions of 24 and 40 channels on Zen
5."""
HALF_VECTOR_COST = 1.02
"""The ratio of `SHARED_VECTOR_COST` on CPUs that compute a vector as two halves, so that an FMA of half a vector takes
half the time of a whole one. Source: EfficientNet-B2, MobileNetV3 and MnasNet on Zen 4 take 0.98, 0.98 and 1.00 of the
time that 1.12 gives."""
PLANAR_COST = 1.1
"""Time of a convolution with pixels in the lanes, over the time of the same products in full blocks of channels: a tile
loads a scalar of the weights for each of its rows, and rows of pictures have any alignment. Source: ShuffleNet's
convolutions of 2 to 8 groups on Zen 5, which reach 80 to 95 % of the peak."""
PLANAR_WINDOW_COST, BLOCKED_WINDOW_COST = 2.9, 2.0
"""Time of a depthwise convolution with pixels in the lanes, and of one in blocks of channels, whose windows share
loads, over the time of as many products in a convolution in full blocks. Source: windows of 3 x 3 reach 30 and 50 % of
the peak on Zen 5; on Zen 3 planes take 0.8 to 0.9 of the time of blocks and their transforms, and 1.4 to 2.3 of it for
windows of 5 x 5."""
MOST_PADDED_PLANES = 1.5
"""Size of a padded picture, relative to the picture, up to which a convolution of few outputs reads it in planes. Not
measured apart: 1.2 pays."""
PLANAR_STRIDED_COST = 1.5
"""Factor on `PLANAR_COST`, `PLANAR_WINDOW_COST` and `BLOCKED_WINDOW_COST` at a stride of 2 to 4 pixels along the row: a
vector of pixels takes as many loads as the stride, and blocks read that many times the pixels. Source: stride 2 in
ShuffleNet on Zen 5; on Zen 3 depthwise windows of 3 x 3 and stride 2 on planes take 0.4 to 0.74 of the time of blocks
and their transforms; steps of 3 and 4 not measured apart."""
TRANSFORM_COST = 2.5
"""Vector steps (half a cycle each) for each element that moves between planes and blocks of channels. Source: pictures
of 60 to 240 channels on Zen 5."""
PLAIN_TRANSFORM_COST = 0.8
"""Vector steps for each element that moves between planes and blocks of channels if all blocks are full: tiles are
transposed in registers. Source: 1x1 convolutions of 16 to 1280 channels between plain pictures, and 3x3 ones of groups
of 16 and 32, on Zen 4."""
PATCH_COST = 1.6
"""Vector steps for each element of a patch, which a slice copies at a stride and the product then reads. Source:
windows of 10 samples at a stride of 5 on Zen 4."""
MOST_PATCH_ELEMENTS = 32
"""Elements of a patch, at most, that are copied, one slice a tap: the taps of 3 x 3 and three channels."""
OVERLAP = 0.75
"""Part of the smaller of computing and streaming that the larger one hides. Source: resnet50's convolutions."""
WINOGRAD_GAIN = 0.9
"""Winograd must take less than this part of the direct sum's time: the model errs by as much."""
PRODUCT_BLOCK_VECTORS = 4
"""Vectors of a block of output channels in Winograd's product, at most: a wider tile of 32 registers has too few rows
to use each vector often."""
WINOGRAD_LEAST_CHANNELS = 4
"""Channels of a block, at least, for Winograd's convolution: a quarter of a vector of AVX-512. Not measured apart."""
COMBINED_GAIN = 0.98
"""Parallel branches as one must take less than this part of their time apart: a copy more that the model misses."""
FEW_USES = 16
"""Multiplications by one weight, below which a kernel waits for its weights rather than for its arithmetic: at 8 bytes
a cycle a weight of 4 bytes comes in half a cycle, in which two FMAs a cycle of 16 lanes multiply 16 times."""
SMALL_RESULT = 4096
"""Elements up to which computing something once for each reader costs less than a kernel of its own. Not measured
apart."""
MOST_MOVED = 1.5
"""Elements that movements read of a costly value, at most, for each of its own: beyond, it has a kernel of its own.
Source: pictures resized by 4 and by 6 taps along each axis, read 1.8 and 2.6 times, take 0.26 and 0.16 of the time on
Zen 4."""
RECOMPUTED_OPS = 4
"""Cheap ops that may be computed once more for each element that a larger movement makes of one. Not measured apart."""
LEAST_BYTE_DEPTH = 16
"""Products of a sum, below which bytes gain nothing over floats. Not measured apart."""
LEAST_BYTE_TAPS = 6
"""Taps of a depthwise window below which bytes gain nothing over floats: such sums are short in floats, too. Not
measured apart."""

# --- threads --------------------------------------------------------------------------------------------------------

NEAR_HANDOVER_NS = 90.0
"""Nanoseconds in which a cache line passes between two CPUs, below which they share a cache. Source: on a virtual
machine of Zen 5 the times are 25 to 50, or 165 to 370 (runtime/peaks.py: measure_handover_ns)."""
SPIN_NANOSECONDS = 3_000_000
"""How long a worker spins for the next parallel loop before it sleeps: longer than most kernels of one thread between
two loops take. Not measured apart."""

# --- te and loops ---------------------------------------------------------------------------------------------------

INLINED_READS = 4
"""How often an element may be computed again where that is cheap. Not measured apart."""
INLINED_OPS = 16
"""Ops of a body that is cheap. Not measured apart."""
HOISTED_ELEMENTS = 64
"""Elements of a loaded tile, at most, that leaves a loop: four vectors of AVX-512."""
AMORTISING_STEPS = 32
"""Steps in registers for each time that an accumulator goes through memory, from which on there is no warning."""
WINOGRAD_LEAST_COLUMNS = 8
"""Tiles of a part of a row of them, at least. Not measured apart."""
UNROLLED_CYCLES = 15
"""
Cycles of multiplications in an iteration of a reduction, at least, below which several steps are unrolled. Source: a
tile of 5x2 vectors from L1, Zen 3: no difference on a core by itself (0.31 ns for two FMAs); beside another thread of
the core, which takes issue slots, 0.49 with one step (5 cycles), 0.37 with four. Operations are issued in groups of 6,
which a branch ends: three steps take as many groups a step as four.
"""
