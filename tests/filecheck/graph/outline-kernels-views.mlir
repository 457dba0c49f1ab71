// RUN: mlc-opt %s -p graph-outline-kernels | filecheck %s

// A concatenation that its operands' kernels can write in place, a slice of one piece and a split are views.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %[[A:.*]] = graph.call @[[SOFT:softmax_[0-9a-f]*]](%x)
// CHECK-NEXT:    %[[B:.*]] = graph.call @[[SOFT]](%[[A]])
// CHECK-NEXT:    %[[C:.*]] = graph.call @[[COPY:copy_[0-9a-f]*]](%y)
// CHECK-NEXT:    %[[W:.*]] = graph.concatenate %[[A]], %[[B]], %[[C]] {axis = 0}
// CHECK-NEXT:    %[[P:.*]], %[[Q:.*]] = graph.split %[[W]]
// CHECK-NEXT:    %[[S:.*]] = graph.slice %[[W]]
// CHECK-NEXT:    graph.call @add_{{[0-9a-f]*}}(%[[P]], %[[S]])
func.func @views(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.softmax %x : tensor<2x4xf32>
  %1 = graph.softmax %0 : tensor<2x4xf32>
  %2 = graph.concatenate %0, %1, %y {axis = 0} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  %3, %4 = graph.split %2 {axis = 0, sections = [3, 3]} : (tensor<6x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  %5 = graph.slice %2 {begin = [2, 0], end = [5, 4], strides = [1, 1]} : (tensor<6x4xf32>) -> tensor<3x4xf32>
  %6 = graph.add %3, %5 : tensor<3x4xf32>
  return %6 : tensor<3x4xf32>
}

// Parts that do not follow one another in memory are not, nor is a concatenation that would copy more than it saves.
// CHECK-LABEL: func.func @pieces
// CHECK-NEXT:    graph.call @softmax
// CHECK-NEXT:    graph.call @concatenate
// CHECK-NEXT:    graph.call @slice
// CHECK-NEXT:    graph.call @concatenate
func.func @pieces(%x: tensor<2x4xf32>, %y: tensor<4x2xf32>) -> tensor<6x2xf32> {
  %0 = graph.softmax %x : tensor<2x4xf32>
  %1 = graph.concatenate %0, %0 {axis = 1} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %2 = graph.slice %1 {begin = [0, 3], end = [2, 5], strides = [1, 1]} : (tensor<2x8xf32>) -> tensor<2x2xf32>
  %3 = graph.concatenate %2, %y {axis = 0} : (tensor<2x2xf32>, tensor<4x2xf32>) -> tensor<6x2xf32>
  return %3 : tensor<6x2xf32>
}
