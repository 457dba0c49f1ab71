// RUN: mlc-opt %s -p graph-flatten-atrous-conv | filecheck %s

// CHECK-LABEL: func.func @same
// CHECK-NEXT:    %w = graph.param "w"
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %w {padding = [2, 2, 2, 2], dilation = [2, 2], data_layout = "NHWC"}
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[C]]
// CHECK-NEXT:    return %[[R]] : tensor<1x6x6x4xf32>
func.func @same(%x: tensor<1x6x6x3xf32>) -> tensor<1x6x6x4xf32> {
  %w = graph.param "w" : tensor<4x3x3x3xf32>
  %0 = graph.pad %x {pad_width = [0, 0, 2, 2, 2, 2, 0, 0]} : (tensor<1x6x6x3xf32>) -> tensor<1x10x10x3xf32>
  %1 = graph.reshape %0 : (tensor<1x10x10x3xf32>) -> tensor<1x5x2x5x2x3xf32>
  %2 = graph.transpose %1 {axes = [2, 4, 0, 1, 3, 5]} : (tensor<1x5x2x5x2x3xf32>) -> tensor<2x2x1x5x5x3xf32>
  %3 = graph.reshape %2 : (tensor<2x2x1x5x5x3xf32>) -> tensor<4x5x5x3xf32>
  %4 = graph.conv2d %3, %w {data_layout = "NHWC"} : (tensor<4x5x5x3xf32>, tensor<4x3x3x3xf32>) -> tensor<4x3x3x4xf32>
  %5 = graph.relu %4 : tensor<4x3x3x4xf32>
  %6 = graph.reshape %5 : (tensor<4x3x3x4xf32>) -> tensor<2x2x1x3x3x4xf32>
  %7 = graph.transpose %6 {axes = [2, 3, 0, 4, 1, 5]} : (tensor<2x2x1x3x3x4xf32>) -> tensor<1x3x2x3x2x4xf32>
  %8 = graph.reshape %7 : (tensor<1x3x2x3x2x4xf32>) -> tensor<1x6x6x4xf32>
  return %8 : tensor<1x6x6x4xf32>
}

// The blocks come back in another order: the result is another picture.
// CHECK-LABEL: func.func @swapped
// CHECK:         graph.conv2d %{{.*}}, %w {data_layout = "NHWC"}
func.func @swapped(%x: tensor<1x6x6x3xf32>) -> tensor<1x6x6x4xf32> {
  %w = graph.param "w1" : tensor<4x3x1x1xf32>
  %1 = graph.reshape %x : (tensor<1x6x6x3xf32>) -> tensor<1x3x2x3x2x3xf32>
  %2 = graph.transpose %1 {axes = [2, 4, 0, 1, 3, 5]} : (tensor<1x3x2x3x2x3xf32>) -> tensor<2x2x1x3x3x3xf32>
  %3 = graph.reshape %2 : (tensor<2x2x1x3x3x3xf32>) -> tensor<4x3x3x3xf32>
  %4 = graph.conv2d %3, %w {data_layout = "NHWC"} : (tensor<4x3x3x3xf32>, tensor<4x3x1x1xf32>) -> tensor<4x3x3x4xf32>
  %6 = graph.reshape %4 : (tensor<4x3x3x4xf32>) -> tensor<2x2x1x3x3x4xf32>
  %7 = graph.transpose %6 {axes = [2, 3, 1, 4, 0, 5]} : (tensor<2x2x1x3x3x4xf32>) -> tensor<1x3x2x3x2x4xf32>
  %8 = graph.reshape %7 : (tensor<1x3x2x3x2x4xf32>) -> tensor<1x6x6x4xf32>
  return %8 : tensor<1x6x6x4xf32>
}

// The picture is padded with zeros, but the convolution of bytes would pad with its zero point.
// CHECK-LABEL: func.func @other_padding
// CHECK-NEXT:    %[[P:.*]] = graph.pad %x
// CHECK-NEXT:    graph.conv2d %[[P]], %w {dilation = [2, 2], data_layout = "NHWC", out_dtype = "int32", pad_value = 7}
func.func @other_padding(%x: tensor<1x6x6x3xui8>, %w: tensor<4x3x3x3xi8>) -> tensor<1x6x6x4xi32> {
  %0 = graph.pad %x {pad_width = [0, 0, 2, 2, 2, 2, 0, 0]} : (tensor<1x6x6x3xui8>) -> tensor<1x10x10x3xui8>
  %1 = graph.reshape %0 : (tensor<1x10x10x3xui8>) -> tensor<1x5x2x5x2x3xui8>
  %2 = graph.transpose %1 {axes = [2, 4, 0, 1, 3, 5]} : (tensor<1x5x2x5x2x3xui8>) -> tensor<2x2x1x5x5x3xui8>
  %3 = graph.reshape %2 : (tensor<2x2x1x5x5x3xui8>) -> tensor<4x5x5x3xui8>
  %4 = graph.conv2d %3, %w {data_layout = "NHWC", pad_value = 7, out_dtype = "int32"} : (tensor<4x5x5x3xui8>, tensor<4x3x3x3xi8>) -> tensor<4x3x3x4xi32>
  %6 = graph.reshape %4 : (tensor<4x3x3x4xi32>) -> tensor<2x2x1x3x3x4xi32>
  %7 = graph.transpose %6 {axes = [2, 3, 0, 4, 1, 5]} : (tensor<2x2x1x3x3x4xi32>) -> tensor<1x3x2x3x2x4xi32>
  %8 = graph.reshape %7 : (tensor<1x3x2x3x2x4xi32>) -> tensor<1x6x6x4xi32>
  return %8 : tensor<1x6x6x4xi32>
}
