// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=znver5}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=sapphirerapids}' --split-input-file | filecheck %s --check-prefix=UNIT
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=znver5 error-growth=0}' --split-input-file | filecheck %s --check-prefix=DIRECT

// A large picture of few channels: Winograd's transforms of f32 beat the direct sum of words, not the matrix unit.
// CHECK-LABEL: @large
// CHECK-NOT:     bf16
// CHECK:         graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x64x56x56xf32>
// UNIT-LABEL:  @large
// UNIT:          graph.conv2d {{.*}} out_dtype = "float32"
// DIRECT-LABEL: @large
// DIRECT:        graph.conv2d {{.*}} out_dtype = "float32"
func.func @large(%x: tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32> {
  %w = graph.param "w" : tensor<64x64x3x3xf32>
  %y = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32>
  return %y : tensor<1x64x56x56xf32>
}

// -----

// A small picture of many channels waits for its weights, of which the transforms have more.
// CHECK-LABEL: @small
// CHECK:         graph.conv2d {{.*}} out_dtype = "float32"
func.func @small(%x: tensor<1x512x7x7xf32>) -> tensor<1x512x7x7xf32> {
  %w = graph.param "w" : tensor<512x512x3x3xf32>
  %y = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  return %y : tensor<1x512x7x7xf32>
}

// -----

// Channels that are padded to whole blocks, and groups of them, have Winograd's transforms, too.
// CHECK-LABEL: @padded
// CHECK-NOT:     bf16
// CHECK:         graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x125x56x56xf32>
func.func @padded(%x: tensor<1x125x56x56xf32>) -> tensor<1x125x56x56xf32> {
  %w = graph.param "w" : tensor<125x125x3x3xf32>
  %y = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x125x56x56xf32>, tensor<125x125x3x3xf32>) -> tensor<1x125x56x56xf32>
  return %y : tensor<1x125x56x56xf32>
}

// -----

// CHECK-LABEL: @groups
// CHECK-NOT:     bf16
// CHECK:         graph.conv2d %x, %w {padding = [1, 1, 1, 1], groups = 4} : (tensor<1x256x56x56xf32>
func.func @groups(%x: tensor<1x256x56x56xf32>) -> tensor<1x256x56x56xf32> {
  %w = graph.param "w" : tensor<256x64x3x3xf32>
  %y = graph.conv2d %x, %w {padding = [1, 1, 1, 1], groups = 4} : (tensor<1x256x56x56xf32>, tensor<256x64x3x3xf32>) -> tensor<1x256x56x56xf32>
  return %y : tensor<1x256x56x56xf32>
}
