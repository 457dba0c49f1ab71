// RUN: mlc-opt %s -p graph-eliminate-dead-code | filecheck %s

// CHECK-LABEL: func.func @dead
// CHECK-NEXT:    %[[A:.*]] = graph.exp %x
// CHECK-NEXT:    return %[[A]]
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.param "w" : tensor<4xf32>
  %0 = graph.relu %x : tensor<4xf32>
  %1 = graph.add %0, %w : tensor<4xf32>
  %2 = graph.exp %x : tensor<4xf32>
  return %2 : tensor<4xf32>
}
