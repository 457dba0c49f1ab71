// RUN: mlc-opt %s -p "graph-legalize{target=x86-64-v3}" | filecheck %s
// RUN: mlc-opt %s -p "graph-legalize{target=znver5}" | filecheck %s --check-prefix=WORDS
// RUN: mlc-opt %s -p "graph-legalize{target=sapphirerapids}" | filecheck %s --check-prefix=WORDS
// RUN: mlc-opt %s -p 'graph-legalize{target="sapphirerapids,-amx-tile"}' | filecheck %s

// CHECK-LABEL: func.func @dense
// CHECK-NEXT:    %[[A:.*]] = graph.cast %x : (tensor<32x8xbf16>) -> tensor<32x8xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.cast %w : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT:    graph.dense %[[A]], %[[B]] : (tensor<32x8xf32>, tensor<4x8xf32>) -> tensor<32x4xf32>
// WORDS-LABEL: func.func @dense
// WORDS-NEXT:    graph.dense %x, %w {out_dtype = "float32"}
func.func @dense(%x: tensor<32x8xbf16>, %w: tensor<4x8xbf16>) -> tensor<32x4xf32> {
  %0 = graph.dense %x, %w {out_dtype = "float32"} : (tensor<32x8xbf16>, tensor<4x8xbf16>) -> tensor<32x4xf32>
  return %0 : tensor<32x4xf32>
}

// One row waits for its weights, which narrow take half the time to arrive.
// CHECK-LABEL: func.func @row
// CHECK-NEXT:    graph.dense %x, %w {out_dtype = "float32"}
func.func @row(%x: tensor<1x8xbf16>, %w: tensor<4x8xbf16>) -> tensor<1x4xf32> {
  %0 = graph.dense %x, %w {out_dtype = "float32"} : (tensor<1x8xbf16>, tensor<4x8xbf16>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
