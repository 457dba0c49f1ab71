// RUN: mlc-opt %s -p graph-annotate-rows{threads=2} | filecheck %s
// RUN: mlc-opt %s -p graph-annotate-rows{threads=1} | filecheck %s --check-prefix=NONE

// Between convolutions, which deal out rows.
// CHECK:       func.func private @window({{.*}} attributes {graph.kernel, mlc.deals_rows} {
// Reads what threads have written by rows.
// CHECK:       func.func private @last({{.*}} attributes {graph.kernel, mlc.deals_rows} {
// Its input comes from a transformation of the layout, which deals out channels.
// CHECK:       func.func private @first({{.*}} attributes {graph.kernel} {
// CHECK:       func.func private @to_blocks({{.*}} attributes {graph.kernel} {
// Between two such transformations.
// CHECK:       func.func private @alone({{.*}} attributes {graph.kernel} {
// It leaves out padding, for which a thread copies whole channels.
// CHECK:       func.func private @clipped({{.*}} attributes {graph.kernel} {
// CHECK:       func.func private @from_blocks({{.*}} attributes {graph.kernel} {
// NONE-NOT:    mlc.deals_rows

func.func @main(%x: tensor<1x32x8x8xf32>, %w: tensor<2x2x1x1x16x16xf32>, %d: tensor<2x1x3x3x16xf32>, %e: tensor<2x1x5x5x16xf32>)
    -> (tensor<1x32x8x8xf32>, tensor<1x32x8x8xf32>, tensor<1x32x8x8xf32>) {
  %0 = graph.call @to_blocks(%x) : (tensor<1x32x8x8xf32>) -> tensor<1x2x8x8x16xf32>
  %1 = graph.call @first(%0, %w) : (tensor<1x2x8x8x16xf32>, tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32>
  %2 = graph.call @window(%1, %d) : (tensor<1x2x8x8x16xf32>, tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32>
  %3 = graph.call @last(%2, %w) : (tensor<1x2x8x8x16xf32>, tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32>
  %4 = graph.call @from_blocks(%3) : (tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32>
  %5 = graph.call @alone(%0, %d) : (tensor<1x2x8x8x16xf32>, tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32>
  %6 = graph.call @from_blocks(%5) : (tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32>
  %7 = graph.call @clipped(%1, %e) : (tensor<1x2x8x8x16xf32>, tensor<2x1x5x5x16xf32>) -> tensor<1x2x8x8x16xf32>
  %8 = graph.call @from_blocks(%7) : (tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32>
  return %4, %6, %8 : tensor<1x32x8x8xf32>, tensor<1x32x8x8xf32>, tensor<1x32x8x8xf32>
}

func.func private @window(%a0: tensor<1x2x8x8x16xf32>, %a1: tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d %a0, %a1 {padding = [1, 1, 1, 1], groups = 32, data_layout = "NCHW16c", kernel_layout = "OIHW16o"} : (tensor<1x2x8x8x16xf32>, tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @last(%a0: tensor<1x2x8x8x16xf32>, %a1: tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d %a0, %a1 {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"} : (tensor<1x2x8x8x16xf32>, tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @first(%a0: tensor<1x2x8x8x16xf32>, %a1: tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d %a0, %a1 {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"} : (tensor<1x2x8x8x16xf32>, tensor<2x2x1x1x16x16xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @to_blocks(%a0: tensor<1x32x8x8xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.layout_transform %a0 {src = "NCHW", dst = "NCHW16c"} : (tensor<1x32x8x8xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @alone(%a0: tensor<1x2x8x8x16xf32>, %a1: tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d %a0, %a1 {padding = [1, 1, 1, 1], groups = 32, data_layout = "NCHW16c", kernel_layout = "OIHW16o"} : (tensor<1x2x8x8x16xf32>, tensor<2x1x3x3x16xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @clipped(%a0: tensor<1x2x8x8x16xf32>, %a1: tensor<2x1x5x5x16xf32>) -> tensor<1x2x8x8x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d %a0, %a1 {padding = [2, 2, 2, 2], groups = 32, data_layout = "NCHW16c", kernel_layout = "OIHW16o"} : (tensor<1x2x8x8x16xf32>, tensor<2x1x5x5x16xf32>) -> tensor<1x2x8x8x16xf32>
  return %0 : tensor<1x2x8x8x16xf32>
}

func.func private @from_blocks(%a0: tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32> attributes {graph.kernel} {
  %0 = graph.layout_transform %a0 {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x8x8x16xf32>) -> tensor<1x32x8x8xf32>
  return %0 : tensor<1x32x8x8xf32>
}
