// RUN: mlc-opt %s -p "graph-alter-op-layout,graph-canonicalize" | filecheck %s
// RUN: mlc-opt %s -p "graph-alter-op-layout{vector-bits=256}" | filecheck %s --check-prefix=AVX2

// The picture is blocked once, and stays so through bias, activation, pool and the next convolution.
// CHECK-LABEL: func.func @stack
// CHECK:         %[[X:.*]] = graph.layout_transform %x {src = "NCHW", dst = "NCHW3c"} : (tensor<1x3x8x8xf32>) -> tensor<1x1x8x8x3xf32>
// CHECK:         %[[C:.*]] = graph.conv2d %[[X]], %{{.*}} {data_layout = "NCHW3c", kernel_layout = "OIHW3i16o"} : (tensor<1x1x8x8x3xf32>, tensor<2x1x3x3x3x16xf32>) -> tensor<1x2x6x6x16xf32>
// CHECK:         %[[B:.*]] = graph.add %[[C]], %{{.*}} : (tensor<1x2x6x6x16xf32>, tensor<1x2x1x1x16xf32>) -> tensor<1x2x6x6x16xf32>
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[B]]
// CHECK-NEXT:    %[[P:.*]] = graph.max_pool2d %[[R]] {pool_size = [2, 2], strides = [2, 2], layout = "NCHW16c"}
// CHECK:         %[[D:.*]] = graph.conv2d %[[P]], %{{.*}} {groups = 32, data_layout = "NCHW16c", kernel_layout = "OIHW16o"}
// CHECK-NEXT:    graph.layout_transform %[[D]] {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x3x3x16xf32>) -> tensor<1x32x3x3xf32>
// CHECK-NEXT:    return
// AVX2-LABEL: func.func @stack
// AVX2:         graph.conv2d {{.*}} {data_layout = "NCHW3c", kernel_layout = "OIHW3i8o"}
func.func @stack(%x: tensor<1x3x8x8xf32>) -> tensor<1x32x3x3xf32> {
  %w = graph.param "w" : tensor<32x3x3x3xf32>
  %b = graph.param "b" : tensor<32xf32>
  %d = graph.param "d" : tensor<32x1x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x8x8xf32>, tensor<32x3x3x3xf32>) -> tensor<1x32x6x6xf32>
  %1 = graph.bias_add %0, %b : tensor<1x32x6x6xf32>
  %2 = graph.relu %1 : tensor<1x32x6x6xf32>
  %3 = graph.max_pool2d %2 {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x32x6x6xf32>) -> tensor<1x32x3x3xf32>
  %4 = graph.conv2d %3, %d {groups = 32} : (tensor<1x32x3x3xf32>, tensor<32x1x1x1xf32>) -> tensor<1x32x3x3xf32>
  return %4 : tensor<1x32x3x3xf32>
}

// Strided windows of few channels read a plain picture as it is.
// CHECK-LABEL: func.func @first
// CHECK:         %[[X:.*]] = graph.reshape %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8x1xf32>
// CHECK:         graph.conv2d %[[X]], %{{.*}} {strides = [2, 2], data_layout = "NCHW1c", kernel_layout = "OIHW1i16o"} : (tensor<1x3x8x8x1xf32>, tensor<2x3x3x3x1x16xf32>) -> tensor<1x2x3x3x16xf32>
// AVX2-LABEL: func.func @first
// AVX2:         graph.conv2d {{.*}} {strides = [2, 2], data_layout = "NCHW1c", kernel_layout = "OIHW1i8o"}
func.func @first(%x: tensor<1x3x8x8xf32>) -> tensor<1x32x3x3xf32> {
  %w = graph.param "w" : tensor<32x3x3x3xf32>
  %0 = graph.conv2d %x, %w {strides = [2, 2]} : (tensor<1x3x8x8xf32>, tensor<32x3x3x3xf32>) -> tensor<1x32x3x3xf32>
  return %0 : tensor<1x32x3x3xf32>
}

// 30 channels are padded to 32: 7 % more work. The logarithm of padding would be -inf, so it is computed plain.
// CHECK-LABEL: func.func @padded
// CHECK:         %[[C:.*]] = graph.conv2d {{.*}} {padding = [1, 1, 1, 1], channels = 30, data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"}
// CHECK-NEXT:    %[[E:.*]] = graph.exp %[[C]] : tensor<1x2x4x4x16xf32>
// CHECK-NEXT:    %[[P:.*]] = graph.layout_transform %[[E]] {{.*}} -> tensor<1x30x4x4xf32>
// CHECK-NEXT:    graph.log %[[P]]
func.func @padded(%x: tensor<1x16x4x4xf32>) -> tensor<1x30x4x4xf32> {
  %w = graph.param "w" : tensor<30x16x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x16x4x4xf32>, tensor<30x16x3x3xf32>) -> tensor<1x30x4x4xf32>
  %1 = graph.exp %0 : tensor<1x30x4x4xf32>
  %2 = graph.log %1 : tensor<1x30x4x4xf32>
  return %2 : tensor<1x30x4x4xf32>
}

// Squeeze and excite stays blocked from end to end.
// CHECK-LABEL: func.func @squeeze_excite
// CHECK:         %[[A:.*]] = graph.conv2d
// CHECK:         %[[M:.*]] = graph.mean %[[A]] {axes = [2, 3], keepdims = true} : (tensor<1x2x4x4x16xf32>) -> tensor<1x2x1x1x16xf32>
// CHECK:         %[[G:.*]] = graph.conv2d %[[M]]
// CHECK-NEXT:    %[[S:.*]] = graph.sigmoid %[[G]]
// CHECK-NEXT:    graph.multiply %[[A]], %[[S]] : (tensor<1x2x4x4x16xf32>, tensor<1x2x1x1x16xf32>)
func.func @squeeze_excite(%x: tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32> {
  %w = graph.param "w" : tensor<32x32x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x32x4x4xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x4x4xf32>
  %1 = graph.mean %0 {axes = [2, 3], keepdims = true} : (tensor<1x32x4x4xf32>) -> tensor<1x32x1x1xf32>
  %2 = graph.conv2d %1, %w : (tensor<1x32x1x1xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x1x1xf32>
  %3 = graph.sigmoid %2 : tensor<1x32x1x1xf32>
  %4 = graph.multiply %0, %3 : (tensor<1x32x4x4xf32>, tensor<1x32x1x1xf32>) -> tensor<1x32x4x4xf32>
  return %4 : tensor<1x32x4x4xf32>
}

// A 1x1 convolution between plain pictures computes on planes of pixels; so does one of few channels, on patches.
// CHECK-LABEL: func.func @planes
// CHECK:         %[[X:.*]] = graph.reshape %x : (tensor<1x24x4x4xf32>) -> tensor<1x1x24x4x4xf32>
// CHECK-NEXT:    graph.conv2d %[[X]], %{{.*}} {data_layout = "NC24cHW", kernel_layout = "OIHW30o"} : {{.*}} -> tensor<1x1x30x4x4xf32>
// CHECK:         %[[A:.*]] = graph.slice %y {begin = [0, 0, 0, 0], end = [1, 1, 1, 26], strides = [1, 1, 1, 5]}
// CHECK:         %[[P:.*]] = graph.concatenate %[[A]], {{.*}} -> tensor<1x7x1x6xf32>
// CHECK:         %[[Q:.*]] = graph.reshape %[[P]] {{.*}} -> tensor<1x1x7x1x6xf32>
// CHECK:         graph.conv2d %[[Q]], %{{.*}} {data_layout = "NC7cHW", kernel_layout = "OIHW16o"} : {{.*}} -> tensor<1x1x16x1x6xf32>
func.func @planes(%x: tensor<1x24x4x4xf32>, %y: tensor<1x1x1x34xf32>) -> (tensor<1x30x4x4xf32>, tensor<1x16x1x6xf32>) {
  %w = graph.param "w" : tensor<30x24x1x1xf32>
  %v = graph.param "v" : tensor<16x1x1x7xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x24x4x4xf32>, tensor<30x24x1x1xf32>) -> tensor<1x30x4x4xf32>
  %1 = graph.conv2d %y, %v {strides = [1, 5]} : (tensor<1x1x1x34xf32>, tensor<16x1x1x7xf32>) -> tensor<1x16x1x6xf32>
  return %0, %1 : tensor<1x30x4x4xf32>, tensor<1x16x1x6xf32>
}

// CHECK-LABEL: func.func @dense
// CHECK:         graph.dense %x, %{{.*}} {units = 60, kernel_layout = "OI32o"} : (tensor<2x5xf32>, tensor<2x5x32xf32>) -> tensor<2x60xf32>
func.func @dense(%x: tensor<2x5xf32>) -> tensor<2x60xf32> {
  %w = graph.param "w" : tensor<60x5xf32>
  %0 = graph.dense %x, %w : (tensor<2x5xf32>, tensor<60x5xf32>) -> tensor<2x60xf32>
  return %0 : tensor<2x60xf32>
}

// The frames that a convolution along three axes reads are blocked once; slices, paddings and the concatenation copy blocks.
// CHECK-LABEL: func.func @frames
// CHECK:         %[[B:.*]] = graph.layout_transform %x {src = "CNHW", dst = "NCHW16c"} : (tensor<16x3x4x4xf32>) -> tensor<3x1x4x4x16xf32>
// CHECK-NEXT:    %[[T:.*]] = graph.slice %[[B]] {begin = [0, 0, 0, 0, 0], end = [2,
// CHECK-NEXT:    %[[P:.*]] = graph.pad %[[T]] {pad_width = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]} : (tensor<2x1x4x4x16xf32>) -> tensor<3x1x4x4x16xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.concatenate %[[P]], %[[B]] {axis = 1} : (tensor<3x1x4x4x16xf32>, tensor<3x1x4x4x16xf32>) -> tensor<3x2x4x4x16xf32>
// CHECK:         graph.conv2d %[[C]], %{{.*}} {padding = [1, 1, 1, 1], data_layout = "NCHW16c"
func.func @frames(%x: tensor<16x3x4x4xf32>) -> tensor<3x16x4x4xf32> {
  %w = graph.param "w" : tensor<16x32x3x3xf32>
  %0 = graph.slice %x {begin = [0, 0, 0, 0], end = [16, 2, 4, 4], strides = [1, 1, 1, 1]} : (tensor<16x3x4x4xf32>) -> tensor<16x2x4x4xf32>
  %1 = graph.pad %0 {pad_width = [0, 0, 1, 0, 0, 0, 0, 0]} : (tensor<16x2x4x4xf32>) -> tensor<16x3x4x4xf32>
  %2 = graph.concatenate %1, %x {axis = 0} : (tensor<16x3x4x4xf32>, tensor<16x3x4x4xf32>) -> tensor<32x3x4x4xf32>
  %3 = graph.transpose %2 {axes = [1, 0, 2, 3]} : (tensor<32x3x4x4xf32>) -> tensor<3x32x4x4xf32>
  %4 = graph.conv2d %3, %w {padding = [1, 1, 1, 1]} : (tensor<3x32x4x4xf32>, tensor<16x32x3x3xf32>) -> tensor<3x16x4x4xf32>
  return %4 : tensor<3x16x4x4xf32>
}

// Parts of one frame's channels, or of other values, are blocked behind the concatenation.
// CHECK-LABEL: func.func @other_frames
// CHECK:         graph.concatenate %x, %y {axis = 0}
// CHECK:         graph.layout_transform
func.func @other_frames(%x: tensor<16x3x4x4xf32>, %y: tensor<16x3x4x4xf32>) -> tensor<3x16x4x4xf32> {
  %w = graph.param "w" : tensor<16x32x3x3xf32>
  %0 = graph.concatenate %x, %y {axis = 0} : (tensor<16x3x4x4xf32>, tensor<16x3x4x4xf32>) -> tensor<32x3x4x4xf32>
  %1 = graph.transpose %0 {axes = [1, 0, 2, 3]} : (tensor<32x3x4x4xf32>) -> tensor<3x32x4x4xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1]} : (tensor<3x32x4x4xf32>, tensor<16x32x3x3xf32>) -> tensor<3x16x4x4xf32>
  return %2 : tensor<3x16x4x4xf32>
}

// The copy that changes the layout of a picture pads it, too, where vectors are loaded under masks.
// CHECK-LABEL: func.func @padded_copy
// CHECK:         %[[X:.*]] = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"}
// CHECK-NEXT:    %[[P:.*]] = graph.pad %[[X]] {pad_width = [0, 0, 0, 0, 1, 2, 0, 1, 0, 0]} : (tensor<1x2x30x31x16xf32>) -> tensor<1x2x33x32x16xf32>
// CHECK-NEXT:    graph.conv2d %[[P]], %{{.*}} {strides = [2, 2], data_layout
// AVX2-LABEL: func.func @padded_copy
// AVX2-NOT:      graph.pad
// AVX2:          graph.conv2d %{{.*}} {strides = [2, 2], padding = [1, 0, 2, 1]
func.func @padded_copy(%x: tensor<1x32x30x31xf32>) -> tensor<1x32x16x15xf32> {
  %w = graph.param "w" : tensor<32x32x3x3xf32>
  %0 = graph.conv2d %x, %w {strides = [2, 2], padding = [1, 0, 2, 1]} : (tensor<1x32x30x31xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x16x15xf32>
  return %0 : tensor<1x32x16x15xf32>
}

// Another op reads the picture: it is copied once, and padded by each convolution.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT:     graph.pad
// CHECK:         return
func.func @read_twice(%x: tensor<1x32x30x30xf32>) -> (tensor<1x32x15x15xf32>, tensor<1x32x30x30xf32>) {
  %w = graph.param "w" : tensor<32x32x3x3xf32>
  %v = graph.param "v" : tensor<32x32x1x1xf32>
  %0 = graph.conv2d %x, %w {strides = [2, 2], padding = [1, 1, 1, 1]} : (tensor<1x32x30x30xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x15x15xf32>
  %1 = graph.conv2d %x, %v : (tensor<1x32x30x30xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x30x30xf32>
  return %0, %1 : tensor<1x32x15x15xf32>, tensor<1x32x30x30xf32>
}

// A depthwise window between transposes takes all channels as one block, and no element moves.
// CHECK-LABEL: func.func @channels_last
// CHECK:         %[[X:.*]] = graph.reshape %x : (tensor<1x8x8x96xf32>) -> tensor<1x1x8x8x96xf32>
// CHECK:         %[[C:.*]] = graph.conv2d %[[X]], %{{.*}} {padding = [1, 1, 1, 1], groups = 96, data_layout = "NCHW96c", kernel_layout = "OIHW96o"}
// CHECK-NEXT:    %[[Y:.*]] = graph.reshape %[[C]] : (tensor<1x1x8x8x96xf32>) -> tensor<1x8x8x96xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @channels_last(%x: tensor<1x8x8x96xf32>) -> tensor<1x8x8x96xf32> {
  %w = graph.param "w" : tensor<96x1x3x3xf32>
  %0 = graph.transpose %x {axes = [0, 3, 1, 2]} : (tensor<1x8x8x96xf32>) -> tensor<1x96x8x8xf32>
  %1 = graph.conv2d %0, %w {padding = [1, 1, 1, 1], groups = 96} : (tensor<1x96x8x8xf32>, tensor<96x1x3x3xf32>) -> tensor<1x96x8x8xf32>
  %2 = graph.transpose %1 {axes = [0, 2, 3, 1]} : (tensor<1x96x8x8xf32>) -> tensor<1x8x8x96xf32>
  return %2 : tensor<1x8x8x96xf32>
}
