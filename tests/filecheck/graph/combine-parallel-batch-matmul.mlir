// RUN: mlc-opt %s -p "graph-combine-parallel-batch-matmul{target=znver5}" | filecheck %s

// CHECK-LABEL: func.func @products
// CHECK:         %[[B:.*]] = graph.concatenate %u, %v, %w {axis = 1}
// CHECK-NEXT:    %[[P:.*]] = graph.batch_matmul %x, %[[B]] {transpose_b = true} : {{.*}} -> tensor<1x1x24xf32>
// CHECK:         %[[S:.*]] = graph.concatenate
// CHECK-NEXT:    %[[M:.*]] = graph.multiply %[[P]], %[[S]] : tensor<1x1x24xf32>
// CHECK-NEXT:    graph.slice %[[M]] {begin = [0, 0, 0], end = [1, 1, 8]
// CHECK-NEXT:    graph.slice %[[M]] {begin = [0, 0, 8], end = [1, 1, 12]
// CHECK-NEXT:    graph.slice %[[M]] {begin = [0, 0, 12], end = [1, 1, 24]
func.func @products(%x: tensor<1x1x32xf32>) -> (tensor<1x1x8xf32>, tensor<1x1x4xf32>, tensor<1x1x12xf32>) {
  %u = graph.param "u" : tensor<1x8x32xf32>
  %v = graph.param "v" : tensor<1x4x32xf32>
  %w = graph.param "w" : tensor<1x12x32xf32>
  %a = graph.constant dense<2.0> : tensor<1x1x1xf32>
  %b = graph.constant dense<3.0> : tensor<1x1x1xf32>
  %c = graph.constant dense<4.0> : tensor<1x1x1xf32>
  %0 = graph.batch_matmul %x, %u {transpose_b = true} : (tensor<1x1x32xf32>, tensor<1x8x32xf32>) -> tensor<1x1x8xf32>
  %1 = graph.batch_matmul %x, %v {transpose_b = true} : (tensor<1x1x32xf32>, tensor<1x4x32xf32>) -> tensor<1x1x4xf32>
  %2 = graph.batch_matmul %x, %w {transpose_b = true} : (tensor<1x1x32xf32>, tensor<1x12x32xf32>) -> tensor<1x1x12xf32>
  %3 = graph.multiply %0, %a : (tensor<1x1x8xf32>, tensor<1x1x1xf32>) -> tensor<1x1x8xf32>
  %4 = graph.multiply %1, %b : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  %5 = graph.multiply %2, %c : (tensor<1x1x12xf32>, tensor<1x1x1xf32>) -> tensor<1x1x12xf32>
  return %3, %4, %5 : tensor<1x1x8xf32>, tensor<1x1x4xf32>, tensor<1x1x12xf32>
}

// Right sides that are computed would have to be copied.
// CHECK-LABEL: func.func @computed
// CHECK-NOT:     graph.concatenate
func.func @computed(%x: tensor<1x32xf32>, %u: tensor<32x8xf32>, %v: tensor<32x8xf32>, %w: tensor<32x8xf32>)
    -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) {
  %0 = graph.batch_matmul %x, %u : (tensor<1x32xf32>, tensor<32x8xf32>) -> tensor<1x8xf32>
  %1 = graph.batch_matmul %x, %v : (tensor<1x32xf32>, tensor<32x8xf32>) -> tensor<1x8xf32>
  %2 = graph.batch_matmul %x, %w : (tensor<1x32xf32>, tensor<32x8xf32>) -> tensor<1x8xf32>
  return %0, %1, %2 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>
}
