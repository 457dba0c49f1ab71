// RUN: mlc-opt %s -p 'graph-fuse-ops,graph-block-biases{target=x86-64-v4}' | filecheck %s

// Queries that nearly fill vectors: the bias is stored in blocks of 16 of them, keys within; the mask is an input and stays.
// CHECK-LABEL: func.func @whole
// CHECK:         %[[B:.*]] = graph.layout_transform %{{.*}} {src = "HQK", dst = "HQK16q"} : (tensor<4x31x49xf32>) -> tensor<4x2x49x16xf32>
// CHECK-NEXT:    graph.fused
// CHECK-SAME:    = %[[B]] : tensor<4x2x49x16xf32>
// CHECK-NEXT:      graph.layout_transform %{{.*}} {src = "HQK16q", dst = "HQK"} : (tensor<4x2x49x16xf32>) -> tensor<4x31x49xf32>
// CHECK-NOT:       graph.layout_transform
// CHECK:           graph.softmax
func.func @whole(%q: tensor<4x31x8xf32>, %k: tensor<4x49x8xf32>, %v: tensor<4x49x8xf32>, %mask: tensor<4x31x49xf32>) -> tensor<4x31x8xf32> {
  %bias = graph.param "bias" : tensor<4x31x49xf32>
  %0 = graph.batch_matmul %q, %k {transpose_b = true} : (tensor<4x31x8xf32>, tensor<4x49x8xf32>) -> tensor<4x31x49xf32>
  %1 = graph.add %0, %bias : (tensor<4x31x49xf32>, tensor<4x31x49xf32>) -> tensor<4x31x49xf32>
  %2 = graph.add %1, %mask : (tensor<4x31x49xf32>, tensor<4x31x49xf32>) -> tensor<4x31x49xf32>
  %3 = graph.softmax %2 {axis = -1} : tensor<4x31x49xf32>
  %4 = graph.batch_matmul %3, %v : (tensor<4x31x49xf32>, tensor<4x49x8xf32>) -> tensor<4x31x8xf32>
  return %4 : tensor<4x31x8xf32>
}

// Others change places with the keys. A constant of one row of keys is read as it is.
// CHECK-LABEL: func.func @ragged
// CHECK:         graph.layout_transform %{{.*}} {src = "HQK", dst = "HKQ"} : (tensor<1x50x49xf32>) -> tensor<1x49x50xf32>
// CHECK-NEXT:    graph.fused
// CHECK-SAME:    tensor<1x49x50xf32>
// CHECK-SAME:    tensor<4x1x49xf32>
func.func @ragged(%q: tensor<4x50x8xf32>, %k: tensor<4x49x8xf32>, %v: tensor<4x49x8xf32>) -> tensor<4x50x8xf32> {
  %bias = graph.param "bias" : tensor<1x50x49xf32>
  %keys = graph.param "keys" : tensor<4x1x49xf32>
  %0 = graph.batch_matmul %q, %k {transpose_b = true} : (tensor<4x50x8xf32>, tensor<4x49x8xf32>) -> tensor<4x50x49xf32>
  %1 = graph.add %0, %bias : (tensor<4x50x49xf32>, tensor<1x50x49xf32>) -> tensor<4x50x49xf32>
  %2 = graph.add %1, %keys : (tensor<4x50x49xf32>, tensor<4x1x49xf32>) -> tensor<4x50x49xf32>
  %3 = graph.softmax %2 {axis = -1} : tensor<4x50x49xf32>
  %4 = graph.batch_matmul %3, %v : (tensor<4x50x49xf32>, tensor<4x49x8xf32>) -> tensor<4x50x8xf32>
  return %4 : tensor<4x50x8xf32>
}

// A softmax of anything but an attention's scores keeps its constants.
// CHECK-LABEL: func.func @alone
// CHECK-NOT:     graph.layout_transform
// CHECK:         return
func.func @alone(%x: tensor<4x31x49xf32>) -> tensor<4x31x49xf32> {
  %bias = graph.param "bias" : tensor<4x31x49xf32>
  %0 = graph.add %x, %bias : (tensor<4x31x49xf32>, tensor<4x31x49xf32>) -> tensor<4x31x49xf32>
  %1 = graph.softmax %0 {axis = -1} : tensor<4x31x49xf32>
  return %1 : tensor<4x31x49xf32>
}
