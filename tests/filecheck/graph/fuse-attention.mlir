// RUN: mlc-opt %s -p graph-fuse-ops | filecheck %s
// RUN: mlc-opt %s -p graph-fuse-ops,graph-defuse-ops | filecheck %s --check-prefix=BACK

// Two products with a softmax between them are one kernel, and the transposes around them with it.
// CHECK-LABEL: func.func @attention
// CHECK-NEXT:    graph.fused "transpose_batch_matmul_add_softmax_transpose_batch_matmul"
// CHECK-NOT:     graph.fused
// CHECK:         return
// BACK-LABEL:  func.func @attention
// BACK-NOT:      graph.fused
func.func @attention(%q: tensor<1x16x2x8xf32>, %k: tensor<1x2x8x16xf32>, %v: tensor<1x16x2x8xf32>,
    %m: tensor<16x16xf32>) -> tensor<1x16x2x8xf32> {
  %0 = graph.transpose %q {axes = [0, 2, 1, 3]} : (tensor<1x16x2x8xf32>) -> tensor<1x2x16x8xf32>
  %1 = graph.batch_matmul %0, %k : (tensor<1x2x16x8xf32>, tensor<1x2x8x16xf32>) -> tensor<1x2x16x16xf32>
  %2 = graph.add %1, %m : (tensor<1x2x16x16xf32>, tensor<16x16xf32>) -> tensor<1x2x16x16xf32>
  %3 = graph.softmax %2 : tensor<1x2x16x16xf32>
  %4 = graph.transpose %v {axes = [0, 2, 1, 3]} : (tensor<1x16x2x8xf32>) -> tensor<1x2x16x8xf32>
  %5 = graph.batch_matmul %3, %4 : (tensor<1x2x16x16xf32>, tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
  %6 = graph.transpose %5 {axes = [0, 2, 1, 3]} : (tensor<1x2x16x8xf32>) -> tensor<1x16x2x8xf32>
  return %6 : tensor<1x16x2x8xf32>
}

// A softmax over another axis, and one of a value that is no product, stay apart.
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT:     graph.fused
// CHECK:         return
func.func @other_axis(%q: tensor<2x16x8xf32>, %k: tensor<2x8x16xf32>, %v: tensor<2x16x8xf32>) -> tensor<2x16x8xf32> {
  %0 = graph.batch_matmul %q, %k : (tensor<2x16x8xf32>, tensor<2x8x16xf32>) -> tensor<2x16x16xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<2x16x16xf32>
  %2 = graph.batch_matmul %1, %v : (tensor<2x16x16xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return %2 : tensor<2x16x8xf32>
}

// CHECK-LABEL: func.func @no_product
// CHECK-NOT:     graph.fused
// CHECK:         return
func.func @no_product(%s: tensor<2x16x16xf32>, %v: tensor<2x16x8xf32>) -> tensor<2x16x8xf32> {
  %0 = graph.softmax %s : tensor<2x16x16xf32>
  %1 = graph.batch_matmul %0, %v : (tensor<2x16x16xf32>, tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return %1 : tensor<2x16x8xf32>
}
