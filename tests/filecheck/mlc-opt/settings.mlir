// RUN: mlc-opt %s -p 'graph-alter-op-layout{vector-bits=$vector-bits}' | filecheck %s --check-prefix=DEFAULT
// RUN: mlc-opt %s -p 'graph-alter-op-layout{vector-bits=$vector-bits}' --set target=x86-64-v3 | filecheck %s --check-prefix=AVX2
// RUN: not mlc-opt %s -p canonicalize --set targets=x86-64-v3 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not mlc-opt %s -p canonicalize --set threads=two 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: mlc-opt --show-pipeline=kernel-O3 | filecheck %s --check-prefix=SHOW

// A word with a dollar sign is a setting of the compilation; an option whose setting is not given keeps its default.
// DEFAULT: NCHW16c
// AVX2: NCHW8c
// UNKNOWN: error: expected a setting among target, threads, precision, error-growth, memory-planner, memory-seed, compilers, but got 'targets=x86-64-v3'
// NUMBER: error: expected a number for setting 'threads', but got 'two'
// SHOW: te-add-schedule{target=$target threads=$threads}
func.func @main(%x: tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32> {
  %w = graph.param "w" : tensor<32x32x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  return %0 : tensor<1x32x8x8xf32>
}
