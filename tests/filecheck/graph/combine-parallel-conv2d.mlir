// RUN: mlc-opt %s -p "graph-combine-parallel-conv2d{min-branches=2 target=znver5}" | filecheck %s
// RUN: mlc-opt %s -p "graph-combine-parallel-conv2d{target=znver5}" | filecheck %s --check-prefix=THREE

// Biases lie side by side like the channels.
// CHECK-LABEL: func.func @branches
// CHECK:         %[[W:.*]] = graph.concatenate %u, %v {axis = 0}
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]] {padding = [1, 1, 1, 1]} : {{.*}} -> tensor<1x48x8x8xf32>
// CHECK:         %[[B:.*]] = graph.concatenate %a, %b {axis = 0}
// CHECK-NEXT:    %[[D:.*]] = graph.bias_add %[[C]], %[[B]] : tensor<1x48x8x8xf32>
// CHECK-NEXT:    %[[P:.*]] = graph.slice %[[D]] {begin = [0, 0, 0, 0], end = [1, 16, 8, 8]
// CHECK-NEXT:    %[[Q:.*]] = graph.slice %[[D]] {begin = [0, 16, 0, 0], end = [1, 48, 8, 8]
// CHECK-NEXT:    return %[[P]], %[[Q]]
// THREE-LABEL: func.func @branches
// THREE-NOT:     graph.concatenate
func.func @branches(%x: tensor<1x32x8x8xf32>) -> (tensor<1x16x8x8xf32>, tensor<1x32x8x8xf32>) {
  %u = graph.param "u" : tensor<16x32x3x3xf32>
  %a = graph.param "a" : tensor<16xf32>
  %0 = graph.conv2d %x, %u {padding = [1, 1, 1, 1]} : (tensor<1x32x8x8xf32>, tensor<16x32x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = graph.bias_add %0, %a : tensor<1x16x8x8xf32>
  %v = graph.param "v" : tensor<32x32x3x3xf32>
  %b = graph.param "b" : tensor<32xf32>
  %3 = graph.conv2d %x, %v {padding = [1, 1, 1, 1]} : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  %4 = graph.bias_add %3, %b : tensor<1x32x8x8xf32>
  return %1, %4 : tensor<1x16x8x8xf32>, tensor<1x32x8x8xf32>
}

// Other strides, weights that are computed, groups.
// CHECK-LABEL: func.func @unlike
// CHECK-NOT:     graph.concatenate
func.func @unlike(%x: tensor<1x32x8x8xf32>, %v: tensor<16x32x1x1xf32>)
    -> (tensor<1x16x8x8xf32>, tensor<1x16x4x4xf32>, tensor<1x16x8x8xf32>, tensor<1x32x8x8xf32>) {
  %u = graph.param "u" : tensor<16x32x1x1xf32>
  %g = graph.param "g" : tensor<32x16x1x1xf32>
  %0 = graph.conv2d %x, %u : (tensor<1x32x8x8xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x8x8xf32>
  %1 = graph.conv2d %x, %u {strides = [2, 2]} : (tensor<1x32x8x8xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x4x4xf32>
  %2 = graph.conv2d %x, %v : (tensor<1x32x8x8xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x8x8xf32>
  %3 = graph.conv2d %x, %g {groups = 2} : (tensor<1x32x8x8xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x8x8xf32>
  return %0, %1, %2, %3 : tensor<1x16x8x8xf32>, tensor<1x16x4x4xf32>, tensor<1x16x8x8xf32>, tensor<1x32x8x8xf32>
}

// With a batch the slices would be copies, which cost more than two launches.
// CHECK-LABEL: func.func @too_dear
// CHECK-NOT:     graph.concatenate
func.func @too_dear(%x: tensor<8x32x56x56xf32>) -> (tensor<8x32x56x56xf32>, tensor<8x32x56x56xf32>) {
  %u = graph.param "u" : tensor<32x32x1x1xf32>
  %v = graph.param "v" : tensor<32x32x1x1xf32>
  %0 = graph.conv2d %x, %u : (tensor<8x32x56x56xf32>, tensor<32x32x1x1xf32>) -> tensor<8x32x56x56xf32>
  %1 = graph.conv2d %x, %v : (tensor<8x32x56x56xf32>, tensor<32x32x1x1xf32>) -> tensor<8x32x56x56xf32>
  return %0, %1 : tensor<8x32x56x56xf32>, tensor<8x32x56x56xf32>
}

// The chains part at once: relu and exp, each in the kernel of its convolution, would be kernels behind slices.
// CHECK-LABEL: func.func @part
// CHECK-NOT:     graph.concatenate
func.func @part(%x: tensor<1x32x8x8xf32>) -> (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) {
  %u = graph.param "up" : tensor<16x32x1x1xf32>
  %v = graph.param "vp" : tensor<16x32x1x1xf32>
  %0 = graph.conv2d %x, %u : (tensor<1x32x8x8xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x8x8xf32>
  %1 = graph.conv2d %x, %v : (tensor<1x32x8x8xf32>, tensor<16x32x1x1xf32>) -> tensor<1x16x8x8xf32>
  %2 = graph.relu %0 : tensor<1x16x8x8xf32>
  %3 = graph.exp %1 : tensor<1x16x8x8xf32>
  return %2, %3 : tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>
}
