// RUN: mlc-opt %s -p graph-canonicalize-ops | filecheck %s

// CHECK-LABEL: func.func @channels
// CHECK-NEXT:    %[[B:.*]] = graph.reshape %b : (tensor<8xf32>) -> tensor<8x1x1xf32>
// CHECK-NEXT:    graph.add %x, %[[B]] : (tensor<1x8x4x4xf32>, tensor<8x1x1xf32>) -> tensor<1x8x4x4xf32>
func.func @channels(%x: tensor<1x8x4x4xf32>, %b: tensor<8xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.bias_add %x, %b : tensor<1x8x4x4xf32>
  return %0 : tensor<1x8x4x4xf32>
}

// The last axis needs no reshape; what is an add already stays.
// CHECK-LABEL: func.func @units
// CHECK-NEXT:    %[[A:.*]] = graph.add %x, %b : (tensor<2x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    graph.add %[[A]], %b
func.func @units(%x: tensor<2x8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %0 = graph.bias_add %x, %b {axis = -1} : tensor<2x8xf32>
  %1 = graph.add %0, %b : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
