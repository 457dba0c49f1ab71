// RUN: mlc-opt %s -p graph-merge-branches | filecheck %s

// A block as RepVGG trains it: windows of 3 x 3 and 1 x 1 and a factor for each channel, each with a bias.
// CHECK-LABEL: func.func @block
// CHECK:         %[[TAP:.*]] = graph.slice %{{.*}} {begin = [0, 0, 0, 1], end = [4, 4, 1, 2], strides = [1, 1, 1, 1]}
// CHECK-NEXT:    %[[VW:.*]] = graph.add %[[TAP]], %v
// CHECK:         graph.concatenate %{{.*}}, %[[VW]], %{{.*}} {axis = 3}
// CHECK:         %[[OWN:.*]] = graph.band {lower = 0, upper = 0, inside = 1.0, outside = 0.0} : tensor<4x4xi1>
// CHECK-NEXT:    %[[SUM:.*]] = graph.add %[[OLD:.*]], %{{.*}} : (tensor<1x4x4xf32>, tensor<1x4x1xf32>)
// CHECK-NEXT:    graph.where %[[OWN]], %[[SUM]], %[[OLD]]
// CHECK:         %[[W:.*]] = graph.concatenate %{{.*}}, %{{.*}}, %{{.*}} {axis = 2}
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]] {padding = [1, 1, 1, 1]}
// CHECK-NOT:     graph.conv2d
// CHECK:         %[[B:.*]] = graph.bias_add %[[C]]
// CHECK-NEXT:    return %[[B]]
func.func @block(%x: tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32> {
  %v = graph.param "v" : tensor<4x4x1x1xf32>
  %w = graph.param "w" : tensor<4x4x3x3xf32>
  %s = graph.param "s" : tensor<1x4x1x1xf32>
  %b = graph.param "b" : tensor<4xf32>
  %t = graph.param "t" : tensor<4x1x1xf32>
  %0 = graph.conv2d %x, %v : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x4x9x9xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.bias_add %1, %b : tensor<1x4x9x9xf32>
  %3 = graph.multiply %x, %s : (tensor<1x4x9x9xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %4 = graph.add %3, %t : (tensor<1x4x9x9xf32>, tensor<4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %5 = graph.add %0, %2 : tensor<1x4x9x9xf32>
  %6 = graph.add %5, %4 : tensor<1x4x9x9xf32>
  return %6 : tensor<1x4x9x9xf32>
}

// A depthwise window and the picture itself.
// CHECK-LABEL: func.func @positions
// CHECK:         %[[TAP:.*]] = graph.slice %{{.*}} {begin = [0, 0, 0, 2], end = [4, 1, 1, 3], strides = [1, 1, 1, 1]}
// CHECK:         %[[ONE:.*]] = graph.full {value = 1.0} : tensor<4x1x1x1xf32>
// CHECK-NEXT:    graph.add %[[TAP]], %[[ONE]]
// CHECK:         %[[W:.*]] = graph.concatenate %{{.*}}, %{{.*}}, %{{.*}} {axis = 2}
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]] {padding = [2, 2, 2, 2], groups = 4}
// CHECK-NEXT:    return %[[C]]
func.func @positions(%x: tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32> {
  %w = graph.param "w1" : tensor<4x1x5x5xf32>
  %0 = graph.conv2d %x, %w {padding = [2, 2, 2, 2], groups = 4} : (tensor<1x4x9x9xf32>, tensor<4x1x5x5xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.add %x, %0 : tensor<1x4x9x9xf32>
  return %1 : tensor<1x4x9x9xf32>
}

// Neither window holds the other; the result of one is used elsewhere, too; a weight is an input; elements are f16.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-2: graph.conv2d
func.func @apart(%x: tensor<1x4x9x9xf32>) -> tensor<1x4x9x9xf32> {
  %v = graph.param "v2" : tensor<4x4x1x3xf32>
  %w = graph.param "w2" : tensor<4x4x3x1xf32>
  %0 = graph.conv2d %x, %v {padding = [0, 1, 0, 1]} : (tensor<1x4x9x9xf32>, tensor<4x4x1x3xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.conv2d %x, %w {padding = [1, 0, 1, 0]} : (tensor<1x4x9x9xf32>, tensor<4x4x3x1xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.add %0, %1 : tensor<1x4x9x9xf32>
  return %2 : tensor<1x4x9x9xf32>
}

// CHECK-LABEL: func.func @used
// CHECK-COUNT-2: graph.conv2d
func.func @used(%x: tensor<1x4x9x9xf32>) -> (tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>) {
  %v = graph.param "v3" : tensor<4x4x1x1xf32>
  %w = graph.param "w3" : tensor<4x4x1x1xf32>
  %0 = graph.conv2d %x, %v : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.conv2d %x, %w : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.add %0, %1 : tensor<1x4x9x9xf32>
  return %2, %0 : tensor<1x4x9x9xf32>, tensor<1x4x9x9xf32>
}

// CHECK-LABEL: func.func @not_constant
// CHECK-COUNT-2: graph.conv2d
func.func @not_constant(%x: tensor<1x4x9x9xf32>, %v: tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32> {
  %w = graph.param "w4" : tensor<4x4x1x1xf32>
  %0 = graph.conv2d %x, %v : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %1 = graph.conv2d %x, %w : (tensor<1x4x9x9xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x9x9xf32>
  %2 = graph.add %0, %1 : tensor<1x4x9x9xf32>
  return %2 : tensor<1x4x9x9xf32>
}

// CHECK-LABEL: func.func @short
// CHECK-COUNT-2: graph.conv2d
func.func @short(%x: tensor<1x4x9x9xf16>) -> tensor<1x4x9x9xf16> {
  %v = graph.param "v5" : tensor<4x4x1x1xf16>
  %w = graph.param "w5" : tensor<4x4x1x1xf16>
  %0 = graph.conv2d %x, %v : (tensor<1x4x9x9xf16>, tensor<4x4x1x1xf16>) -> tensor<1x4x9x9xf16>
  %1 = graph.conv2d %x, %w : (tensor<1x4x9x9xf16>, tensor<4x4x1x1xf16>) -> tensor<1x4x9x9xf16>
  %2 = graph.add %0, %1 : tensor<1x4x9x9xf16>
  return %2 : tensor<1x4x9x9xf16>
}
