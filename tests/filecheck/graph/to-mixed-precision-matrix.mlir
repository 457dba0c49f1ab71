// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=sapphirerapids}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=znver5}' --split-input-file | filecheck %s --check-prefix=DOTS
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target="sapphirerapids,-amx-tile"}' --split-input-file | filecheck %s --check-prefix=SLOW

// The matrix unit multiplies rows and words; vectors multiply bf16 faster than f32 on Zen 5, and slower on this CPU.
// CHECK-LABEL: @rows
// CHECK:       graph.dense {{.*}}out_dtype = "float32"
// DOTS-LABEL:  @rows
// DOTS:        graph.dense {{.*}}out_dtype = "float32"
// SLOW-LABEL:  @rows
// SLOW-NOT:    bf16
// SLOW:        return
func.func @rows(%x: tensor<64x256xf32>) -> tensor<64x128xf32> {
  %w = graph.param "w" : tensor<128x256xf32>
  %y = graph.dense %x, %w : (tensor<64x256xf32>, tensor<128x256xf32>) -> tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}

// -----

// Three channels, padded to two words, do not fill a matrix register.
// CHECK-LABEL: @stem
// CHECK-NOT:   bf16
// CHECK:       return
// DOTS-LABEL:  @stem
// DOTS:        graph.conv2d {{.*}}out_dtype = "float32"
func.func @stem(%x: tensor<1x3x32x32xf32>) -> tensor<1x32x32x32xf32> {
  %w = graph.param "w" : tensor<32x3x1x1xf32>
  %y = graph.conv2d %x, %w : (tensor<1x3x32x32xf32>, tensor<32x3x1x1xf32>) -> tensor<1x32x32x32xf32>
  return %y : tensor<1x32x32x32xf32>
}

// -----

// A size that is open is not known to fill it.
// CHECK-LABEL: @open
// CHECK-NOT:   bf16
// CHECK:       return
// DOTS-LABEL:  @open
// DOTS:        graph.dense {{.*}}out_dtype = "float32"
func.func @open(%x: tensor<?x256xf32, #graph.dims<[n]>>) -> tensor<?x128xf32, #graph.dims<[n]>> {
  %w = graph.param "w" : tensor<128x256xf32>
  %y = graph.dense %x, %w : (tensor<?x256xf32, #graph.dims<[n]>>, tensor<128x256xf32>) -> tensor<?x128xf32, #graph.dims<[n]>>
  return %y : tensor<?x128xf32, #graph.dims<[n]>>
}

// -----

// Groups of 24 channels have 12 words; groups of 4 share a block, and groups of 9 have no whole words.
// CHECK-LABEL: @groups
// CHECK:       graph.conv2d {{.*}}groups = 4, out_dtype = "float32"
// CHECK:       graph.conv2d
// CHECK-NOT:   out_dtype
// CHECK:       return
// DOTS-LABEL:  @groups
// DOTS:        graph.conv2d {{.*}}groups = 4, out_dtype = "float32"
// DOTS-NOT:    out_dtype
// DOTS:        return
func.func @groups(%x: tensor<1x96x14x14xf32>, %z: tensor<1x96x14x14xf32>, %u: tensor<1x36x14x14xf32>) -> (tensor<1x96x14x14xf32>, tensor<1x96x14x14xf32>, tensor<1x36x14x14xf32>) {
  %w = graph.param "w" : tensor<96x24x1x1xf32>
  %y = graph.conv2d %x, %w {groups = 4} : (tensor<1x96x14x14xf32>, tensor<96x24x1x1xf32>) -> tensor<1x96x14x14xf32>
  %few = graph.param "few" : tensor<96x4x1x1xf32>
  %t = graph.conv2d %z, %few {groups = 24} : (tensor<1x96x14x14xf32>, tensor<96x4x1x1xf32>) -> tensor<1x96x14x14xf32>
  %odd = graph.param "odd" : tensor<36x9x1x1xf32>
  %s = graph.conv2d %u, %odd {groups = 4} : (tensor<1x36x14x14xf32>, tensor<36x9x1x1xf32>) -> tensor<1x36x14x14xf32>
  return %y, %t, %s : tensor<1x96x14x14xf32>, tensor<1x96x14x14xf32>, tensor<1x36x14x14xf32>
}
