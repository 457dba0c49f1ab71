// RUN: mlc-opt %s -p 'graph-outline-kernels{parts=false}' | filecheck %s
// RUN: mlc-opt %s -p 'graph-outline-kernels' | filecheck %s --check-prefix=PARTS

// Without parts a concatenation and a slice are kernels; a reshape, which is a whole buffer, stays a view.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[A:.*]] = graph.call @{{softmax_[0-9a-f]*}}(%x)
// CHECK-NEXT:    %[[B:.*]] = graph.call @{{exp_[0-9a-f]*}}(%x)
// CHECK-NEXT:    %[[C:.*]] = graph.call @{{concatenate_[0-9a-f]*}}(%[[A]], %[[B]])
// CHECK-NEXT:    %[[D:.*]] = graph.call @{{slice_[0-9a-f]*}}(%[[C]])
// CHECK-NEXT:    %[[E:.*]] = graph.reshape %[[D]]
// CHECK-NEXT:    graph.call @{{relu_[0-9a-f]*}}(%[[E]])
// PARTS:         graph.concatenate
// PARTS-NEXT:    graph.slice
func.func @main(%x: tensor<1x4x8xf32>) -> tensor<32xf32> {
  %0 = graph.softmax %x : tensor<1x4x8xf32>
  %1 = graph.exp %x : tensor<1x4x8xf32>
  %2 = graph.concatenate %0, %1 {axis = 1} : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x8x8xf32>
  %3 = graph.slice %2 {begin = [0, 2, 0], end = [1, 6, 8], strides = [1, 1, 1]} : (tensor<1x8x8xf32>) -> tensor<1x4x8xf32>
  %4 = graph.reshape %3 : (tensor<1x4x8xf32>) -> tensor<32xf32>
  %5 = graph.relu %4 : tensor<32xf32>
  return %5 : tensor<32xf32>
}
