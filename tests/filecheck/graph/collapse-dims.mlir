// RUN: mlc-opt %s --split-input-file -p graph-collapse-dims | filecheck %s

// Rows and columns are one axis for a 1x1 convolution and what is pointwise; views of it stand around the region.
// CHECK-LABEL: @pointwise
// CHECK:         %[[x:.*]] = graph.reshape %x : (tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>) -> tensor<1x2x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK:         %[[y:.*]] = graph.fused "conv2d_add_relu" (%{{.*}} = %[[x]] : tensor<1x2x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK:           graph.conv2d {{.*}} -> tensor<1x4x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK:           graph.add {{.*}} -> tensor<1x4x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK:           graph.relu {{.*}} : tensor<1x4x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK:         graph.reshape %[[y]] : (tensor<1x4x1x?x16xf32, #graph.dims<[H * W]>>) -> tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
func.func @pointwise(%x: tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>, %w: tensor<4x2x1x1x16x16xf32>, %b: tensor<1x4x1x1x16xf32>) -> tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>> {
  %0 = graph.fused "conv2d_add_relu" (%a = %x : tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>, %k = %w : tensor<4x2x1x1x16x16xf32>, %c = %b : tensor<1x4x1x1x16xf32>) -> tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>> {
    %1 = graph.conv2d %a, %k {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"} : (tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>, tensor<4x2x1x1x16x16xf32>) -> tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
    %2 = graph.add %1, %c : (tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>, tensor<1x4x1x1x16xf32>) -> tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
    %3 = graph.relu %2 : tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
    graph.yield %3 : tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
  }
  return %0 : tensor<1x4x?x?x16xf32, #graph.dims<[H, W]>>
}

// -----

// A convolution that is alone, too, and where one of the sizes is a number.
// CHECK-LABEL: @alone
// CHECK:         graph.fused "conv2d" ({{.*}}tensor<?x8x1x?xf32, #graph.dims<[N, W * 6]>>
func.func @alone(%x: tensor<?x8x6x?xf32, #graph.dims<[N, W]>>, %w: tensor<4x8x1x1xf32>) -> tensor<?x4x6x?xf32, #graph.dims<[N, W]>> {
  %0 = graph.conv2d %x, %w : (tensor<?x8x6x?xf32, #graph.dims<[N, W]>>, tensor<4x8x1x1xf32>) -> tensor<?x4x6x?xf32, #graph.dims<[N, W]>>
  return %0 : tensor<?x4x6x?xf32, #graph.dims<[N, W]>>
}

// -----

// What reads neighbours tells rows from columns; so does what is added to each row. Plain layouts
// of known sizes are left to schedules, and a result in another layout has its axes elsewhere.
// CHECK-LABEL: @neighbours
// CHECK-NOT:     graph.reshape
// CHECK-LABEL: @columns
// CHECK-NOT:     graph.reshape
// CHECK-LABEL: @strided
// CHECK-NOT:     graph.reshape
// CHECK-LABEL: @known
// CHECK-NOT:     graph.reshape
// CHECK-LABEL: @other_layout
// CHECK-NOT:     graph.reshape
func.func @neighbours(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, %w: tensor<4x8x3x3xf32>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, tensor<4x8x3x3xf32>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
}
func.func @columns(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, %w: tensor<4x8x1x1xf32>, %b: tensor<?xf32, #graph.dims<[W]>>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.fused "conv2d_add" (%a = %x : tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, %k = %w : tensor<4x8x1x1xf32>, %c = %b : tensor<?xf32, #graph.dims<[W]>>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>> {
    %1 = graph.conv2d %a, %k : (tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, tensor<4x8x1x1xf32>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
    %2 = graph.add %1, %c : (tensor<1x4x?x?xf32, #graph.dims<[H, W]>>, tensor<?xf32, #graph.dims<[W]>>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
    graph.yield %2 : tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
  }
  return %0 : tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
}
func.func @strided(%x: tensor<1x8x?x?xf32, #graph.dims<[H * 2, W * 2]>>, %w: tensor<4x8x1x1xf32>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.conv2d %x, %w {strides = [2, 2]} : (tensor<1x8x?x?xf32, #graph.dims<[H * 2, W * 2]>>, tensor<4x8x1x1xf32>) -> tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x4x?x?xf32, #graph.dims<[H, W]>>
}
func.func @known(%x: tensor<1x16x5x6xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16x5x6xf32> {
  %0 = graph.conv2d %x, %w : (tensor<1x16x5x6xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x5x6xf32>
  return %0 : tensor<1x16x5x6xf32>
}

func.func @other_layout(%x: tensor<1x2x7x9x8xf32>, %w: tensor<1x2x1x1x8xf32>) -> tensor<1x1x7x9xf32> {
  %0 = graph.conv2d %x, %w {data_layout = "NCHW8c", kernel_layout = "OIHW8i"} : (tensor<1x2x7x9x8xf32>, tensor<1x2x1x1x8xf32>) -> tensor<1x1x7x9xf32>
  return %0 : tensor<1x1x7x9xf32>
}

// -----

// With channels in blocks, pixels are the rows of register tiles: 30 of them leave fewer over than 6 at a time.
// CHECK-LABEL: @blocked
// CHECK:         graph.reshape %x : (tensor<1x1x5x6x16xf32>) -> tensor<1x1x1x30x16xf32>
// CHECK:         graph.conv2d {{.*}} -> tensor<1x1x1x30x16xf32>
func.func @blocked(%x: tensor<1x1x5x6x16xf32>, %w: tensor<1x1x1x1x16x16xf32>) -> tensor<1x1x5x6x16xf32> {
  %0 = graph.conv2d %x, %w {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"} : (tensor<1x1x5x6x16xf32>, tensor<1x1x1x1x16x16xf32>) -> tensor<1x1x5x6x16xf32>
  return %0 : tensor<1x1x5x6x16xf32>
}

// -----

// On planes of groups pixels are the lanes of vectors: a long axis fills them.
// CHECK-LABEL: @planes
// CHECK:         graph.reshape %x : (tensor<1x3x8x5x6xf32>) -> tensor<1x3x8x1x30xf32>
// CHECK:         graph.conv2d {{.*}} -> tensor<1x3x4x1x30xf32>
func.func @planes(%x: tensor<1x3x8x5x6xf32>, %w: tensor<3x8x1x1x4xf32>) -> tensor<1x3x4x5x6xf32> {
  %0 = graph.conv2d %x, %w {groups = 3, data_layout = "NC8cHW", kernel_layout = "OIHW4o"} : (tensor<1x3x8x5x6xf32>, tensor<3x8x1x1x4xf32>) -> tensor<1x3x4x5x6xf32>
  return %0 : tensor<1x3x4x5x6xf32>
}

// -----

// Without a convolution, too: what is pointwise becomes one axis, a transpose moves both axes, a sum over both is a sum
// over one, and a layout keeps them. Axes of known sizes before an open one join it.
// CHECK-LABEL: @scaled
// CHECK:         graph.sigmoid {{.*}} : tensor<1x1x1x?xf32, #graph.dims<[H * W * 8]>>
// CHECK-LABEL: @turned
// CHECK:         graph.transpose {{.*}} (tensor<1x8x1x?xf32, #graph.dims<[H * W]>>) -> tensor<1x1x?x8xf32, #graph.dims<[H * W]>>
// CHECK-LABEL: @summed
// CHECK:         graph.sum {{.*}} (tensor<1x8x1x?xf32, #graph.dims<[H * W]>>) -> tensor<1x8xf32>
// CHECK-LABEL: @in_blocks
// CHECK:         graph.layout_transform {{.*}} (tensor<1x32x1x?xf32, #graph.dims<[H * W]>>) -> tensor<1x2x1x?x16xf32, #graph.dims<[H * W]>>
// CHECK-LABEL: @rows_of_batches
// CHECK:         graph.dense {{.*}} (tensor<1x?x8xf32, #graph.dims<[N * T]>>, tensor<4x8xf32>) -> tensor<1x?x4xf32, #graph.dims<[N * T]>>
// CHECK-LABEL: @concatenated
// CHECK:         graph.concatenate {{.*}} -> tensor<1x16x1x?xf32, #graph.dims<[H * W]>>
func.func @scaled(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x8x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.sigmoid %x : tensor<1x8x?x?xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x8x?x?xf32, #graph.dims<[H, W]>>
}
func.func @turned(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x?x?x8xf32, #graph.dims<[H, W]>> {
  %0 = graph.transpose %x {axes = [0, 2, 3, 1]} : (tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x?x?x8xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x?x?x8xf32, #graph.dims<[H, W]>>
}
func.func @summed(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x8xf32> {
  %0 = graph.sum %x {axes = [2, 3]} : (tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}
func.func @in_blocks(%x: tensor<1x32x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>> {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>
}
func.func @rows_of_batches(%x: tensor<?x?x8xf32, #graph.dims<[N, T]>>, %w: tensor<4x8xf32>) -> tensor<?x?x4xf32, #graph.dims<[N, T]>> {
  %0 = graph.dense %x, %w : (tensor<?x?x8xf32, #graph.dims<[N, T]>>, tensor<4x8xf32>) -> tensor<?x?x4xf32, #graph.dims<[N, T]>>
  return %0 : tensor<?x?x4xf32, #graph.dims<[N, T]>>
}
func.func @concatenated(%x: tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x16x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.concatenate %x, %x {axis = 1} : (tensor<1x8x?x?xf32, #graph.dims<[H, W]>>, tensor<1x8x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x16x?x?xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x16x?x?xf32, #graph.dims<[H, W]>>
}

// -----

// A softmax along one of the axes, a concatenation along it, or a factor for each row tells them apart; lanes stay
// along a last axis of known size.
// CHECK-LABEL: @along
// CHECK-NOT:     graph.reshape
// CHECK-LABEL: @lanes
// CHECK-NOT:     graph.reshape
func.func @along(%x: tensor<8x?x?xf32, #graph.dims<[H, W]>>, %s: tensor<?x1xf32, #graph.dims<[H]>>) -> tensor<8x?x?xf32, #graph.dims<[H, W]>> {
  %0 = graph.fused "softmax_multiply" (%a = %x : tensor<8x?x?xf32, #graph.dims<[H, W]>>, %b = %s : tensor<?x1xf32, #graph.dims<[H]>>) -> tensor<8x?x?xf32, #graph.dims<[H, W]>> {
    %1 = graph.softmax %a {axis = 0} : tensor<8x?x?xf32, #graph.dims<[H, W]>>
    %2 = graph.multiply %1, %b : (tensor<8x?x?xf32, #graph.dims<[H, W]>>, tensor<?x1xf32, #graph.dims<[H]>>) -> tensor<8x?x?xf32, #graph.dims<[H, W]>>
    graph.yield %2 : tensor<8x?x?xf32, #graph.dims<[H, W]>>
  }
  return %0 : tensor<8x?x?xf32, #graph.dims<[H, W]>>
}
func.func @lanes(%x: tensor<?x8xf32, #graph.dims<[N]>>) -> tensor<?x8xf32, #graph.dims<[N]>> {
  %0 = graph.exp %x : tensor<?x8xf32, #graph.dims<[N]>>
  return %0 : tensor<?x8xf32, #graph.dims<[N]>>
}
