// RUN: mlc-opt %s -p 'graph-alter-op-layout{target=sapphirerapids}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-alter-op-layout{target="sapphirerapids,-amx-tile"}' --split-input-file | filecheck %s --check-prefix=VECTORS

// A row of a matrix register has 64 bytes: blocks of 64 channels, or of the largest half of them that divides the channels.
// CHECK-LABEL:   @bytes
// CHECK:         graph.conv2d {{.*}}data_layout = "NCHW64c", kernel_layout = "OIHW16i32o4i"
// VECTORS-LABEL: @bytes
// VECTORS:       graph.conv2d {{.*}}data_layout = "NCHW16c", kernel_layout = "OIHW4i16o4i"
func.func @bytes(%x: tensor<1x128x14x14xui8>) -> tensor<1x96x14x14xi32> {
  %w = graph.param "w" : tensor<96x128x1x1xi8>
  %y = graph.conv2d %x, %w {out_dtype = "int32"} : (tensor<1x128x14x14xui8>, tensor<96x128x1x1xi8>) -> tensor<1x96x14x14xi32>
  return %y : tensor<1x96x14x14xi32>
}

// -----

// Depthwise windows are slower in wide blocks: what they read, perhaps behind a pointwise op, is in blocks of one vector.
// CHECK-LABEL:   @depthwise
// CHECK:         graph.conv2d {{.*}}data_layout = "NCHW32c", kernel_layout = "OIHW16i16o2i"
// CHECK:         graph.conv2d {{.*}}data_layout = "NCHW16c", kernel_layout = "OIHW16o"
// VECTORS-LABEL: @depthwise
// VECTORS:       graph.conv2d {{.*}}data_layout = "NCHW16c", kernel_layout = "OIHW8i16o2i"
func.func @depthwise(%x: tensor<1x64x14x14xbf16>) -> tensor<1x96x14x14xf32> {
  %w = graph.param "w" : tensor<96x64x1x1xbf16>
  %y = graph.conv2d %x, %w {out_dtype = "float32"} : (tensor<1x64x14x14xbf16>, tensor<96x64x1x1xbf16>) -> tensor<1x96x14x14xf32>
  %r = graph.relu %y : tensor<1x96x14x14xf32>
  %d = graph.param "d" : tensor<96x1x3x3xf32>
  %z = graph.conv2d %r, %d {padding = [1, 1, 1, 1], groups = 96} : (tensor<1x96x14x14xf32>, tensor<96x1x3x3xf32>) -> tensor<1x96x14x14xf32>
  return %z : tensor<1x96x14x14xf32>
}

// -----

// Groups of 24 channels are one block of 12 words.
// CHECK-LABEL:   @groups
// CHECK:         graph.conv2d {{.*}}data_layout = "NCHW24c", kernel_layout = "OIHW12i24o2i"
// VECTORS-LABEL: @groups
// VECTORS:       graph.conv2d {{.*}}data_layout = "NCHW12c", kernel_layout = "OIHW6i12o2i"
func.func @groups(%x: tensor<1x96x14x14xbf16>) -> tensor<1x96x14x14xf32> {
  %w = graph.param "w" : tensor<96x24x3x3xbf16>
  %y = graph.conv2d %x, %w {padding = [1, 1, 1, 1], groups = 4, out_dtype = "float32"} : (tensor<1x96x14x14xbf16>, tensor<96x24x3x3xbf16>) -> tensor<1x96x14x14xf32>
  return %y : tensor<1x96x14x14xf32>
}
