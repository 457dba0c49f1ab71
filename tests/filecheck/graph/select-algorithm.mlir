// RUN: mlc-opt %s -p graph-alter-op-layout,graph-select-algorithm --split-input-file | filecheck %s
// RUN: mlc-opt %s -p graph-alter-op-layout,graph-select-algorithm{error-growth=4} --split-input-file | filecheck %s --check-prefix=TIGHT
// RUN: mlc-opt %s -p graph-alter-op-layout,graph-select-algorithm{error-growth=0} --split-input-file | filecheck %s --check-prefix=EXACT

// Many pixels: tiles of 4 x 4 outputs, unless the accuracy budget only allows 2 x 2, or none.
// CHECK-LABEL: func.func @large
// CHECK:         %[[u:.*]] = graph.winograd_weight {{.*}} -> tensor<6x6x4x4x16x16xf32>
// CHECK:         graph.conv2d_winograd %{{.*}}, %[[u]],
// TIGHT-LABEL: func.func @large
// TIGHT:         graph.winograd_weight {{.*}} -> tensor<4x4x4x4x16x16xf32>
// EXACT-LABEL: func.func @large
// EXACT-NOT:     winograd
func.func @large(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32> {
  %w = graph.param "w" : tensor<64x64x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32>
  return %0 : tensor<1x64x56x56xf32>
}

// -----

// Few pixels, many channels: the transformed weights take longer to fetch than the multiplications that they save.
// CHECK-LABEL: func.func @few_pixels
// CHECK-NOT:     winograd
func.func @few_pixels(%x: tensor<1x512x7x7xf32>) -> tensor<1x512x7x7xf32> {
  %w = graph.param "w" : tensor<512x512x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  return %0 : tensor<1x512x7x7xf32>
}

// -----

// Strides stay direct.
// CHECK-LABEL: func.func @strided
// CHECK-NOT:     winograd
func.func @strided(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x28x28xf32> {
  %w = graph.param "w" : tensor<64x64x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1], strides = [2, 2]} : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x28x28xf32>
  return %0 : tensor<1x64x28x28xf32>
}
