// RUN: mlc-opt %s -p 'graph-alter-op-layout{target=znver5},graph-fuse-ops,graph-select-algorithm{target=znver5}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-alter-op-layout{target=znver5 winograd-error=0},graph-fuse-ops,graph-select-algorithm{target=znver5 error-growth=0}' --split-input-file | filecheck %s --check-prefix=EXACT

// Whole blocks make a group: each of 8 parts of the result reads its part of the picture.
// CHECK-LABEL: func.func @whole_blocks
// CHECK:         graph.winograd_weight {{.*}} -> tensor<6x6x16x2x16x16xf32>
// CHECK:         graph.conv2d_winograd %{{.*}}, %{{.*}} {groups = 8} : (tensor<1x16x41x50x16xf32>, tensor<6x6x16x2x16x16xf32>) -> tensor<1x16x41x50x16xf32>
// EXACT-LABEL: func.func @whole_blocks
// EXACT:         graph.conv2d {{.*}} groups = 8, data_layout = "NCHW16c"
func.func @whole_blocks(%x: tensor<1x256x41x50xf32>) -> tensor<1x256x41x50xf32> {
  %w = graph.param "w" : tensor<256x32x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1], groups = 8} : (tensor<1x256x41x50xf32>, tensor<256x32x3x3xf32>) -> tensor<1x256x41x50xf32>
  return %0 : tensor<1x256x41x50xf32>
}

// -----

// Groups of 24 channels have blocks of 12 lanes, since Winograd's algorithm is faster in those than planes are.
// CHECK-LABEL: func.func @divisor_blocks
// CHECK:         graph.conv2d_winograd %{{.*}}, %{{.*}} {groups = 8} : (tensor<1x16x28x28x12xf32>, tensor<6x6x16x2x12x12xf32>)
// EXACT-LABEL: func.func @divisor_blocks
// EXACT:         graph.conv2d {{.*}} groups = 8, data_layout = "NC24cHW", kernel_layout = "OIHW24o"
func.func @divisor_blocks(%x: tensor<1x192x28x28xf32>) -> tensor<1x192x28x28xf32> {
  %w = graph.param "w" : tensor<192x24x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1], groups = 8} : (tensor<1x192x28x28xf32>, tensor<192x24x3x3xf32>) -> tensor<1x192x28x28xf32>
  return %0 : tensor<1x192x28x28xf32>
}

// -----

// The last of 8 blocks has 15 channels that are zeros.
// CHECK-LABEL: func.func @padded_channels
// CHECK:         graph.conv2d_winograd %{{.*}}, %{{.*}} : (tensor<1x8x15x35x16xf32>, tensor<6x6x8x8x16x16xf32>) -> tensor<1x8x15x35x16xf32>
// EXACT-LABEL: func.func @padded_channels
// EXACT:         graph.conv2d {{.*}} channels = 113
func.func @padded_channels(%x: tensor<1x113x15x35xf32>) -> tensor<1x113x15x35xf32> {
  %w = graph.param "w" : tensor<113x113x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x113x15x35xf32>, tensor<113x113x3x3xf32>) -> tensor<1x113x15x35xf32>
  return %0 : tensor<1x113x15x35xf32>
}
