// RUN: mlc-opt %s -p graph-canonicalize-cast | filecheck %s

// CHECK-LABEL: func.func @two_readers
// CHECK-NEXT:    %[[A:.*]] = graph.cast %x
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[A]]
// CHECK-NEXT:    %[[B:.*]] = graph.cast %x
// CHECK-NEXT:    %[[S:.*]] = graph.multiply %[[B]], %[[B]]
// CHECK-NEXT:    return %[[R]], %[[S]]
func.func @two_readers(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.cast %x : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = graph.relu %0 : tensor<4xf32>
  %2 = graph.multiply %0, %0 : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// A narrowing cast is stored narrow anyway; a cast with one reader is that reader's already.
// CHECK-LABEL: func.func @narrow
// CHECK-NEXT:    %[[A:.*]] = graph.cast %x
// CHECK-NEXT:    graph.relu %[[A]]
// CHECK-NEXT:    graph.neg %[[A]]
// CHECK-NEXT:    %[[B:.*]] = graph.cast %y
// CHECK-NEXT:    graph.relu %[[B]]
// CHECK-NEXT:    return
func.func @narrow(%x: tensor<4xf64>, %y: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.cast %x : (tensor<4xf64>) -> tensor<4xf32>
  %1 = graph.relu %0 : tensor<4xf32>
  %2 = graph.neg %0 : tensor<4xf32>
  %3 = graph.cast %y : (tensor<4xbf16>) -> tensor<4xf32>
  %4 = graph.relu %3 : tensor<4xf32>
  return %1, %2, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What is dequantised is a product and a difference behind the cast: a mean reads bytes as well.
// CHECK-LABEL: func.func @dequantised
// CHECK-COUNT-2: graph.cast %x
func.func @dequantised(%x: tensor<1x8x4x4xui8>) -> tensor<1x8x4x4xf32> {
  %0 = graph.cast %x : (tensor<1x8x4x4xui8>) -> tensor<1x8x4x4xf32>
  %s = graph.constant dense<0.5> : tensor<f32>
  %1 = graph.multiply %0, %s : (tensor<1x8x4x4xf32>, tensor<f32>) -> tensor<1x8x4x4xf32>
  %2 = graph.mean %1 {axes = [2, 3], keepdims = true} : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
  %3 = graph.multiply %1, %2 : (tensor<1x8x4x4xf32>, tensor<1x8x1x1xf32>) -> tensor<1x8x4x4xf32>
  func.return %3 : tensor<1x8x4x4xf32>
}
