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
