// RUN: mlc-opt %s -p 'graph-select-algorithm{target=znver5}' | filecheck %s

// A convolution that stays direct gets no region of its own.
// CHECK-LABEL: func.func @alone
// CHECK-NOT:     graph.fused
// CHECK:         graph.conv2d
// CHECK-NOT:     graph.fused
func.func @alone(%x: tensor<1x1x3x3x4xf32>) -> tensor<1x1x1x1x8xf32> {
  %w = graph.param "w" : tensor<1x1x3x3x4x8xf32>
  %0 = graph.conv2d %x, %w {data_layout = "NCHW4c", kernel_layout = "OIHW4i8o"} : (tensor<1x1x3x3x4xf32>, tensor<1x1x3x3x4x8xf32>) -> tensor<1x1x1x1x8xf32>
  return %0 : tensor<1x1x1x1x8xf32>
}

// Nor one whose weight is made where it is read.
// CHECK-LABEL: func.func @filled
// CHECK-NOT:     graph.fused
// CHECK:         graph.conv2d
// CHECK-NOT:     graph.fused
func.func @filled(%x: tensor<1x1x3x3x4xf32>) -> tensor<1x1x1x1x8xf32> {
  %w = graph.full {value = 0.5} : tensor<1x1x3x3x4x8xf32>
  %0 = graph.conv2d %x, %w {data_layout = "NCHW4c", kernel_layout = "OIHW4i8o"} : (tensor<1x1x3x3x4xf32>, tensor<1x1x3x3x4x8xf32>) -> tensor<1x1x1x1x8xf32>
  return %0 : tensor<1x1x1x1x8xf32>
}
