// RUN: mlc-opt %s -p graph-fuse-ops | filecheck %s
// RUN: mlc-opt %s -p graph-fuse-ops,graph-defuse-ops | filecheck %s --check-prefix=BACK

// A convolution takes its bias, a residual and the activation with it; a broadcast operand may be smaller.
// CHECK-LABEL: func.func @conv
// CHECK-NEXT:    graph.fused "conv2d_add_multiply_relu"
// CHECK-NEXT:      graph.conv2d
// CHECK-NEXT:      graph.add
// CHECK-NEXT:      graph.multiply
// CHECK-NEXT:      graph.relu
// CHECK-NEXT:      graph.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    return
// BACK-LABEL: func.func @conv
// BACK-NEXT:    graph.conv2d
// BACK-NEXT:    graph.add
// BACK-NEXT:    graph.multiply
// BACK-NEXT:    graph.relu
// BACK-NEXT:    return
func.func @conv(%x: tensor<1x4x5x5xf32>, %w: tensor<4x4x1x1xf32>, %r: tensor<1x4x5x5xf32>, %s: tensor<1x4x1x1xf32>)
    -> tensor<1x4x5x5xf32> {
  %0 = graph.conv2d %x, %w : (tensor<1x4x5x5xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.add %0, %r : tensor<1x4x5x5xf32>
  %2 = graph.multiply %1, %s : (tensor<1x4x5x5xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %3 = graph.relu %2 : tensor<1x4x5x5xf32>
  return %3 : tensor<1x4x5x5xf32>
}

// Many steps are not computed again for every element that a picture grows by; a few are.
// CHECK-LABEL: func.func @grows
// CHECK-NEXT:    graph.fused "relu_sqrt_relu_abs_neg"
// CHECK:         graph.fused "resize2d_relu"
// CHECK:         return
// BACK-LABEL: func.func @grows
func.func @grows(%x: tensor<1x4x32x32xf32>) -> tensor<1x4x64x64xf32> {
  %0 = graph.relu %x : tensor<1x4x32x32xf32>
  %1 = graph.sqrt %0 : tensor<1x4x32x32xf32>
  %2 = graph.relu %1 : tensor<1x4x32x32xf32>
  %3 = graph.abs %2 : tensor<1x4x32x32xf32>
  %4 = graph.neg %3 : tensor<1x4x32x32xf32>
  %5 = graph.resize2d %4 {size = [64, 64]} : (tensor<1x4x32x32xf32>) -> tensor<1x4x64x64xf32>
  %6 = graph.relu %5 : tensor<1x4x64x64xf32>
  return %6 : tensor<1x4x64x64xf32>
}

// CHECK-LABEL: func.func @grows_at_once
// CHECK-NEXT:    graph.fused "relu_resize2d"
// BACK-LABEL: func.func @grows_at_once
func.func @grows_at_once(%x: tensor<1x4x32x32xf32>) -> tensor<1x4x64x64xf32> {
  %0 = graph.relu %x : tensor<1x4x32x32xf32>
  %1 = graph.resize2d %0 {size = [64, 64]} : (tensor<1x4x32x32xf32>) -> tensor<1x4x64x64xf32>
  return %1 : tensor<1x4x64x64xf32>
}

// Squeeze and excite: the gate ends in the gate's kernel, whose result is smaller than the product's.
// CHECK-LABEL: func.func @gate
// CHECK:         graph.fused "conv2d_hard_swish"
// CHECK:         graph.mean
// CHECK:         graph.fused "conv2d_sigmoid"
// CHECK:         graph.multiply {{.*}} -> tensor<1x4x9x9xf32>
func.func @gate(%x: tensor<1x4x9x9xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32> {
  %0 = graph.conv2d %x, %w : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.hard_swish %0 : tensor<1x4x9x9xf32>
  %2 = graph.mean %1 {axes = [2, 3], keepdims = true} : (tensor<1x4x9x9xf32>) -> tensor<1x4x1x1xf32>
  %3 = graph.conv2d %2, %w : (tensor<1x4x1x1xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  %4 = graph.sigmoid %3 : tensor<1x4x1x1xf32>
  %5 = graph.multiply %1, %4 : (tensor<1x4x9x9xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  return %5 : tensor<1x4x9x9xf32>
}

// Softmax is one op, with the scale before it and what is elementwise behind it; the constant is copied in.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    graph.fused "multiply_softmax_relu" (%{{.*}} = %x : tensor<8x8xf32>)
// CHECK-NEXT:      graph.constant
func.func @softmax(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.multiply %x, %s : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %1 = graph.softmax %0 : tensor<8x8xf32>
  %2 = graph.relu %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// A movement is read where it is reduced; a reshape is a view, in no kernel.
// CHECK-LABEL: func.func @movements
// CHECK-NEXT:    graph.fused "transpose_sum_sqrt"
// CHECK:         graph.reshape
// CHECK-NEXT:    graph.fused "exp_transpose"
func.func @movements(%x: tensor<8x6xf32>) -> tensor<2x3xf32> {
  %0 = graph.transpose %x {axes = [1, 0]} : (tensor<8x6xf32>) -> tensor<6x8xf32>
  %1 = graph.sum %0 {axes = [1]} : (tensor<6x8xf32>) -> tensor<6xf32>
  %2 = graph.sqrt %1 : tensor<6xf32>
  %3 = graph.reshape %2 : (tensor<6xf32>) -> tensor<3x2xf32>
  %4 = graph.exp %3 : tensor<3x2xf32>
  %5 = graph.transpose %4 {axes = [1, 0]} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

// What is costly is not computed once for each of many readers.
// CHECK-LABEL: func.func @costly
// CHECK-NEXT:    graph.exp
// CHECK-NEXT:    graph.fused "relu_multiply"
func.func @costly(%x: tensor<64x64x64xf32>, %y: tensor<64xf32>) -> tensor<64x64x64xf32> {
  %0 = graph.exp %y : tensor<64xf32>
  %1 = graph.relu %x : tensor<64x64x64xf32>
  %2 = graph.multiply %1, %0 : (tensor<64x64x64xf32>, tensor<64xf32>) -> tensor<64x64x64xf32>
  return %2 : tensor<64x64x64xf32>
}

// A convolution that pads copies its rows anyway: cheap pointwise ops are computed in the copy, expensive ones are not.
// CHECK-LABEL: func.func @prologue
// CHECK:         graph.fused "relu_conv2d"
// CHECK:         graph.exp
// CHECK-NEXT:    graph.conv2d
func.func @prologue(%x: tensor<1x4x9x9xf32>, %w: tensor<4x4x3x3xf32>) -> (tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>) {
  %0 = graph.relu %x : tensor<1x4x9x9xf32>
  %1 = graph.conv2d %0, %w {padding = [1, 1, 1, 1]}
      : (tensor<1x4x9x9xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.exp %x : tensor<1x4x9x9xf32>
  %3 = graph.conv2d %2, %w {padding = [1, 1, 1, 1]}
      : (tensor<1x4x9x9xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x9x9xf32>
  return %1, %3 : tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>
}

// Parts that would not lie in the result as they are: slices and paddings along other axes than the last are read through.
// CHECK-LABEL: func.func @joined
// CHECK:         graph.fused "slice_pad_concatenate" (%{{.*}} = %x : tensor<4x2x8xf32>)
// BACK-LABEL: func.func @joined
func.func @joined(%x: tensor<4x2x8xf32>) -> tensor<4x4x8xf32> {
  %0 = graph.slice %x {begin = [1, 0, 0], end = [4, 2, 8], strides = [1, 1, 1]} : (tensor<4x2x8xf32>) -> tensor<3x2x8xf32>
  %1 = graph.pad %0 {pad_width = [1, 0, 0, 0, 0, 0]} : (tensor<3x2x8xf32>) -> tensor<4x2x8xf32>
  %2 = graph.concatenate %1, %x {axis = 1} : (tensor<4x2x8xf32>, tensor<4x2x8xf32>) -> tensor<4x4x8xf32>
  return %2 : tensor<4x4x8xf32>
}

// Whole ranges of the result are written by their own kernels, and a slice along the last axis is its own kernel.
// CHECK-LABEL: func.func @not_joined
// CHECK-NOT:     concatenate"
// CHECK:         return
func.func @not_joined(%x: tensor<4x8xf32>, %y: tensor<4x2x8xf32>) -> (tensor<8x8xf32>, tensor<4x4x4xf32>) {
  %0 = graph.pad %x {pad_width = [1, 0, 0, 0]} : (tensor<4x8xf32>) -> tensor<5x8xf32>
  %1 = graph.slice %0 {begin = [0, 0], end = [4, 8], strides = [1, 1]} : (tensor<5x8xf32>) -> tensor<4x8xf32>
  %2 = graph.concatenate %1, %x {axis = 0} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = graph.slice %y {begin = [0, 0, 0], end = [4, 2, 8], strides = [1, 1, 2]} : (tensor<4x2x8xf32>) -> tensor<4x2x4xf32>
  %4 = graph.concatenate %3, %3 {axis = 1} : (tensor<4x2x4xf32>, tensor<4x2x4xf32>) -> tensor<4x4x4xf32>
  return %2, %4 : tensor<8x8xf32>, tensor<4x4x4xf32>
}
