// RUN: mlc-opt %s -p graph-eliminate-common-subexpr | filecheck %s
// RUN: mlc-opt %s -p "graph-eliminate-common-subexpr{skip=relu}" | filecheck %s --check-prefix=SKIP

// Equal ops on equal operands are one; other attributes, other ops. Regions do not share with what is around them.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    %[[A:.*]] = graph.relu %x
// CHECK-NEXT:    %[[B:.*]] = graph.sum %[[A]] {axes = [0]}
// CHECK-NEXT:    %[[C:.*]] = graph.sum %[[A]] {axes = [1]}
// CHECK-NEXT:    %[[F:.*]] = graph.fused "relu"
// CHECK-NEXT:      graph.relu
// CHECK:         return %[[B]], %[[B]], %[[C]], %[[F]]
// What is skipped is computed for each reader, and so is what reads the copies.
// SKIP-LABEL: func.func @twice
// SKIP-NEXT:     %[[A:.*]] = graph.relu %x
// SKIP-NEXT:     %[[B:.*]] = graph.relu %x
// SKIP-NEXT:     graph.sum %[[A]] {axes = [0]}
// SKIP-NEXT:     graph.sum %[[B]] {axes = [0]}
func.func @twice(%x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) {
  %0 = graph.relu %x : tensor<4x4xf32>
  %1 = graph.relu %x : tensor<4x4xf32>
  %2 = graph.sum %0 {axes = [0]} : (tensor<4x4xf32>) -> tensor<4xf32>
  %3 = graph.sum %1 {axes = [0]} : (tensor<4x4xf32>) -> tensor<4xf32>
  %4 = graph.sum %1 {axes = [1]} : (tensor<4x4xf32>) -> tensor<4xf32>
  %5 = graph.fused "relu" (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
    %6 = graph.relu %a : tensor<4x4xf32>
    graph.yield %6 : tensor<4x4xf32>
  }
  return %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>
}
