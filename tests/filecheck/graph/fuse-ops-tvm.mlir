// RUN: mlc-opt %s -p "graph-fuse-ops{mode=tvm}" | filecheck %s

// The residual has the convolution's shape: one group.
// CHECK-LABEL: func.func @residual
// CHECK-NEXT:    graph.fused "conv2d_relu_add"
// CHECK-NOT:     graph.fused
// CHECK:         return
func.func @residual(%x: tensor<1x4x5x5xf32>, %w: tensor<4x4x1x1xf32>, %r: tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32> {
  %0 = graph.conv2d %x, %w : (tensor<1x4x5x5xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.relu %0 : tensor<1x4x5x5xf32>
  %2 = graph.add %1, %r : tensor<1x4x5x5xf32>
  return %2 : tensor<1x4x5x5xf32>
}

// The other operand gives the result its shape: the convolution stays alone.
// CHECK-LABEL: func.func @grows
// CHECK-NEXT:    graph.conv2d
// CHECK-NEXT:    graph.fused "add_relu"
func.func @grows(%x: tensor<1x4x1x1xf32>, %w: tensor<4x4x1x1xf32>, %r: tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32> {
  %0 = graph.conv2d %x, %w : (tensor<1x4x1x1xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  %1 = graph.add %0, %r : (tensor<1x4x1x1xf32>, tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32>
  %2 = graph.relu %1 : tensor<1x4x5x5xf32>
  return %2 : tensor<1x4x5x5xf32>
}

// Concatenated branches and what follows are one group, through the tuple; a pad before a convolution is not.
// CHECK-LABEL: func.func @concat
// CHECK-NEXT:    graph.fused "relu_exp_concatenate_neg_pad"
// CHECK:         graph.conv2d
func.func @concat(%x: tensor<1x2x3x3xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x5x5xf32> {
  %0 = graph.relu %x : tensor<1x2x3x3xf32>
  %1 = graph.exp %x : tensor<1x2x3x3xf32>
  %2 = graph.concatenate %0, %1 {axis = 1} : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  %3 = graph.neg %2 : tensor<1x4x3x3xf32>
  %4 = graph.pad %3 {pad_width = [0, 0, 0, 0, 1, 1, 1, 1]} : (tensor<1x4x3x3xf32>) -> tensor<1x4x5x5xf32>
  %5 = graph.conv2d %4, %w : (tensor<1x4x5x5xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x5x5xf32>
  return %5 : tensor<1x4x5x5xf32>
}
