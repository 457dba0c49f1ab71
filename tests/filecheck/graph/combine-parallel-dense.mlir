// RUN: mlc-opt %s -p "graph-combine-parallel-dense{target=znver5}" | filecheck %s

// One row: the parts of the result are parts of its memory.
// CHECK-LABEL: func.func @heads
// CHECK:         %[[W:.*]] = graph.concatenate %u, %v, %w {axis = 0}
// CHECK-NEXT:    %[[D:.*]] = graph.dense %x, %[[W]] : {{.*}} -> tensor<1x24xf32>
// CHECK-NEXT:    %[[R:.*]] = graph.tanh %[[D]] : tensor<1x24xf32>
// CHECK-NEXT:    %[[A:.*]] = graph.slice %[[R]] {begin = [0, 0], end = [1, 8]
// CHECK-NEXT:    %[[B:.*]] = graph.slice %[[R]] {begin = [0, 8], end = [1, 12]
// CHECK-NEXT:    %[[C:.*]] = graph.slice %[[R]] {begin = [0, 12], end = [1, 24]
// CHECK-NEXT:    return %[[A]], %[[B]], %[[C]]
func.func @heads(%x: tensor<1x32xf32>) -> (tensor<1x8xf32>, tensor<1x4xf32>, tensor<1x12xf32>) {
  %u = graph.param "u" : tensor<8x32xf32>
  %v = graph.param "v" : tensor<4x32xf32>
  %w = graph.param "w" : tensor<12x32xf32>
  %0 = graph.dense %x, %u : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<1x8xf32>
  %1 = graph.dense %x, %v : (tensor<1x32xf32>, tensor<4x32xf32>) -> tensor<1x4xf32>
  %2 = graph.dense %x, %w : (tensor<1x32xf32>, tensor<12x32xf32>) -> tensor<1x12xf32>
  %3 = graph.tanh %0 : tensor<1x8xf32>
  %4 = graph.tanh %1 : tensor<1x4xf32>
  %5 = graph.tanh %2 : tensor<1x12xf32>
  return %3, %4, %5 : tensor<1x8xf32>, tensor<1x4xf32>, tensor<1x12xf32>
}

// Many rows whose parts are copied.
// CHECK-LABEL: func.func @rows
// CHECK-NOT:     graph.concatenate
func.func @rows(%x: tensor<4096x32xf32>) -> (tensor<4096x64xf32>, tensor<4096x64xf32>, tensor<4096x64xf32>) {
  %u = graph.param "ur" : tensor<64x32xf32>
  %v = graph.param "vr" : tensor<64x32xf32>
  %w = graph.param "wr" : tensor<64x32xf32>
  %0 = graph.dense %x, %u : (tensor<4096x32xf32>, tensor<64x32xf32>) -> tensor<4096x64xf32>
  %1 = graph.dense %x, %v : (tensor<4096x32xf32>, tensor<64x32xf32>) -> tensor<4096x64xf32>
  %2 = graph.dense %x, %w : (tensor<4096x32xf32>, tensor<64x32xf32>) -> tensor<4096x64xf32>
  return %0, %1, %2 : tensor<4096x64xf32>, tensor<4096x64xf32>, tensor<4096x64xf32>
}

// Two are fewer than min-branches.
// CHECK-LABEL: func.func @two
// CHECK-NOT:     graph.concatenate
func.func @two(%x: tensor<1x32xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %u = graph.param "u2" : tensor<8x32xf32>
  %v = graph.param "v2" : tensor<8x32xf32>
  %0 = graph.dense %x, %u : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<1x8xf32>
  %1 = graph.dense %x, %v : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<1x8xf32>
  return %0, %1 : tensor<1x8xf32>, tensor<1x8xf32>
}
