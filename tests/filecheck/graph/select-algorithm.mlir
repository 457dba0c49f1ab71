// RUN: mlc-opt %s -p 'graph-alter-op-layout,graph-fuse-ops,graph-select-algorithm{target=znver5}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-alter-op-layout,graph-fuse-ops,graph-select-algorithm{target=znver5 error-growth=4}' --split-input-file | filecheck %s --check-prefix=TIGHT
// RUN: mlc-opt %s -p 'graph-alter-op-layout,graph-fuse-ops,graph-select-algorithm{target=znver5 error-growth=0}' --split-input-file | filecheck %s --check-prefix=EXACT

// Many pixels: tiles of 4 x 4 outputs, unless the accuracy budget only allows 2 x 2, or none.
// CHECK-LABEL: func.func @large
// CHECK:         %[[u:.*]] = graph.winograd_weight {{.*}} -> tensor<6x6x4x4x16x16xf32>
// CHECK-NEXT:    graph.fused "conv2d_winograd" (%[[a:[0-9]+]] = %{{[0-9]+}} : {{.*}}, %[[b:[0-9]+]] = %[[u]] :
// CHECK-NEXT:    graph.conv2d_winograd %[[a]], %[[b]] :
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

// Few pixels, many channels: smaller tiles, whose transformed weights take less time to fetch.
// CHECK-LABEL: func.func @few_pixels
// CHECK:         graph.winograd_weight {{.*}} -> tensor<4x4x32x32x16x16xf32>
func.func @few_pixels(%x: tensor<1x512x7x7xf32>) -> tensor<1x512x7x7xf32> {
  %w = graph.param "w" : tensor<512x512x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  return %0 : tensor<1x512x7x7xf32>
}

// -----

// One pixel: most of a tile would be thrown away.
// CHECK-LABEL: func.func @one_pixel
// CHECK-NOT:     winograd
func.func @one_pixel(%x: tensor<1x512x1x1xf32>) -> tensor<1x512x1x1xf32> {
  %w = graph.param "w" : tensor<512x512x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x512x1x1xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x1x1xf32>
  return %0 : tensor<1x512x1x1xf32>
}

// -----

// 24 channels in blocks of 8 are multiplied as 24: 1.5 vectors instead of 3.
// CHECK-LABEL: func.func @narrow_blocks
// CHECK:         %[[u:.*]] = graph.winograd_weight {{.*}} {block_out = 24} {{.*}} -> tensor<6x6x1x6x16x24xf32>
// CHECK-NEXT:    graph.fused "conv2d_winograd" (%[[a:[0-9]+]] = %{{[0-9]+}} : {{.*}}, %[[b:[0-9]+]] = %[[u]] :
// CHECK-NEXT:    graph.conv2d_winograd %[[a]], %[[b]] {block = 8}{{.*}} -> tensor<1x3x80x80x8xf32>
func.func @narrow_blocks(%x: tensor<1x96x80x80xf32>) -> tensor<1x24x80x80xf32> {
  %w = graph.param "w" : tensor<24x96x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x96x80x80xf32>, tensor<24x96x3x3xf32>) -> tensor<1x24x80x80xf32>
  return %0 : tensor<1x24x80x80xf32>
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
