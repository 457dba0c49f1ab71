// RUN: mlc-opt %s -p graph-canonicalize | filecheck %s

// Tokens become a picture, and back: transposes of four axes lie next to the convolution.
// CHECK-LABEL: func.func @window
// CHECK:         %[[X:.*]] = graph.reshape %x : (tensor<2x12x8xf32>) -> tensor<2x3x4x8xf32>
// CHECK-NEXT:    %[[P:.*]] = graph.transpose %[[X]] {axes = [0, 3, 1, 2]}
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %[[P]], %{{.*}}
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[C]]
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %[[R]] {axes = [0, 2, 3, 1]}
// CHECK-NEXT:    %[[Y:.*]] = graph.reshape %[[T]] : (tensor<2x3x4x8xf32>) -> tensor<2x12x8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @window(%x: tensor<2x12x8xf32>) -> tensor<2x12x8xf32> {
  %w = graph.param "w" : tensor<8x1x3x3xf32>
  %0 = graph.transpose %x {axes = [0, 2, 1]} : (tensor<2x12x8xf32>) -> tensor<2x8x12xf32>
  %1 = graph.reshape %0 : (tensor<2x8x12xf32>) -> tensor<2x8x3x4xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1], groups = 8} : (tensor<2x8x3x4xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x3x4xf32>
  %3 = graph.relu %2 : tensor<2x8x3x4xf32>
  %4 = graph.reshape %3 : (tensor<2x8x3x4xf32>) -> tensor<2x8x12xf32>
  %5 = graph.transpose %4 {axes = [0, 2, 1]} : (tensor<2x8x12xf32>) -> tensor<2x12x8xf32>
  return %5 : tensor<2x12x8xf32>
}

// A reshape that merges an axis and splits it elsewhere stays, and so does one that something else reads.
// CHECK-LABEL: func.func @stays
// CHECK:         graph.transpose %x {axes = [0, 2, 1]}
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.conv2d
// CHECK:         graph.transpose %y {axes = [0, 2, 1]}
// CHECK-NEXT:    graph.reshape
// CHECK-NEXT:    graph.conv2d
func.func @stays(%x: tensor<1x6x10xf32>, %y: tensor<1x6x4xf32>) -> (tensor<1x4x3x5xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>) {
  %w = graph.param "w" : tensor<4x1x3x3xf32>
  %0 = graph.transpose %x {axes = [0, 2, 1]} : (tensor<1x6x10xf32>) -> tensor<1x10x6xf32>
  %1 = graph.reshape %0 : (tensor<1x10x6xf32>) -> tensor<1x4x3x5xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1], groups = 4} : (tensor<1x4x3x5xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x3x5xf32>
  %3 = graph.transpose %y {axes = [0, 2, 1]} : (tensor<1x6x4xf32>) -> tensor<1x4x6xf32>
  %4 = graph.reshape %3 : (tensor<1x4x6xf32>) -> tensor<1x4x3x2xf32>
  %5 = graph.conv2d %4, %w {padding = [1, 1, 1, 1], groups = 4} : (tensor<1x4x3x2xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x3x2xf32>
  return %2, %4, %5 : tensor<1x4x3x5xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>
}
