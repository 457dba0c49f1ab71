// RUN: mlc-opt %s -p graph-fold-scale-axis | filecheck %s
// RUN: mlc-opt %s -p "graph-fold-scale-axis{direction=backward}" | filecheck %s --check-prefix=BACK

// CHECK-LABEL: func.func @backward
// CHECK:         %[[W:.*]] = graph.multiply %w, %{{.*}} : (tensor<4x3x1x1xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x1x1xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]]
// CHECK:         %[[B:.*]] = graph.multiply %b, %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    %[[D:.*]] = graph.bias_add %[[C]], %[[B]]
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[D]]
// CHECK-NEXT:    return %[[R]]
func.func @backward(%x: tensor<1x3x5x5xf32>) -> tensor<1x4x5x5xf32> {
  %w = graph.param "w" : tensor<4x3x1x1xf32>
  %b = graph.param "b" : tensor<4xf32>
  %s = graph.constant dense<[[[2.0]], [[3.0]], [[0.5]], [[1.5]]]> : tensor<4x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.bias_add %0, %b : tensor<1x4x5x5xf32>
  %2 = graph.relu %1 : tensor<1x4x5x5xf32>
  %3 = graph.multiply %2, %s : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<1x4x5x5xf32>
  return %3 : tensor<1x4x5x5xf32>
}

// A relu lets only positive scales pass.
// CHECK-LABEL: func.func @negative
// CHECK:         graph.relu
// CHECK-NEXT:    graph.multiply
func.func @negative(%x: tensor<1x3x5x5xf32>) -> tensor<1x4x5x5xf32> {
  %w = graph.param "w" : tensor<4x3x1x1xf32>
  %s = graph.constant dense<[[[2.0]], [[-3.0]], [[0.5]], [[1.5]]]> : tensor<4x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.relu %0 : tensor<1x4x5x5xf32>
  %2 = graph.multiply %1, %s : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<1x4x5x5xf32>
  return %2 : tensor<1x4x5x5xf32>
}

// Forward, through a relu to both readers: a convolution takes the scale along I, a depthwise one along O.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[R:.*]] = graph.relu %x
// CHECK:         %[[W:.*]] = graph.multiply %w, %{{.*}} : (tensor<2x4x1x1xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x1x1xf32>
// CHECK-NEXT:    graph.conv2d %[[R]], %[[W]]
// CHECK:         %[[V:.*]] = graph.multiply %v, %{{.*}} : (tensor<4x1x3x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x1x3x3xf32>
// CHECK-NEXT:    graph.conv2d %[[R]], %[[V]] {groups = 4}
// BACK-LABEL: func.func @forward
// BACK:         graph.multiply %x, %s
func.func @forward(%x: tensor<1x4x5x5xf32>) -> (tensor<1x2x5x5xf32>, tensor<1x4x3x3xf32>) {
  %w = graph.param "w2" : tensor<2x4x1x1xf32>
  %v = graph.param "v" : tensor<4x1x3x3xf32>
  %s = graph.constant dense<[[[2.0]], [[3.0]], [[0.5]], [[1.5]]]> : tensor<4x1x1xf32>
  %0 = graph.multiply %x, %s : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.relu %0 : tensor<1x4x5x5xf32>
  %2 = graph.conv2d %1, %w : (tensor<1x4x5x5xf32>, tensor<2x4x1x1xf32>) -> tensor<1x2x5x5xf32>
  %3 = graph.conv2d %1, %v {groups = 4} : (tensor<1x4x5x5xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x3x3xf32>
  return %2, %3 : tensor<1x2x5x5xf32>, tensor<1x4x3x3xf32>
}

// A grouped convolution refuses, and so the scale stays for the other reader as well.
// CHECK-LABEL: func.func @grouped
// CHECK:         %[[S:.*]] = graph.multiply %x, %s
// CHECK-NEXT:    graph.conv2d %[[S]], %w : {{.*}}
// CHECK-NEXT:    graph.conv2d %[[S]], %v {groups = 2}
func.func @grouped(%x: tensor<1x4x5x5xf32>) -> (tensor<1x2x5x5xf32>, tensor<1x4x5x5xf32>) {
  %w = graph.param "w2" : tensor<2x4x1x1xf32>
  %v = graph.param "v2" : tensor<4x2x1x1xf32>
  %s = graph.constant dense<[[[2.0]], [[3.0]], [[0.5]], [[1.5]]]> : tensor<4x1x1xf32>
  %0 = graph.multiply %x, %s : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.conv2d %0, %w : (tensor<1x4x5x5xf32>, tensor<2x4x1x1xf32>) -> tensor<1x2x5x5xf32>
  %2 = graph.conv2d %0, %v {groups = 2} : (tensor<1x4x5x5xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x5x5xf32>
  return %1, %2 : tensor<1x2x5x5xf32>, tensor<1x4x5x5xf32>
}

// Blocked: the scale varies along the outer and the inner channels.
// CHECK-LABEL: func.func @blocked
// CHECK:         graph.broadcast_to %s : (tensor<1x1x1x1x4xf32>) -> tensor<1x2x1x1x4xf32>
// CHECK-NEXT:    graph.reshape %{{.*}} : (tensor<1x2x1x1x4xf32>) -> tensor<2x1x1x1x1x4xf32>
// CHECK-NEXT:    %[[W:.*]] = graph.multiply %w
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]]
// CHECK-NEXT:    return %[[C]]
func.func @blocked(%x: tensor<1x3x5x5x2xf32>) -> tensor<1x2x5x5x4xf32> {
  %w = graph.param "w4" : tensor<2x3x1x1x2x4xf32>
  %s = graph.constant dense<[[[[[2.0, 3.0, 0.5, 1.5]]]]]> : tensor<1x1x1x1x4xf32>
  %0 = graph.conv2d %x, %w {data_layout = "NCHW2c", kernel_layout = "OIHW2i4o"} : (tensor<1x3x5x5x2xf32>, tensor<2x3x1x1x2x4xf32>) -> tensor<1x2x5x5x4xf32>
  %1 = graph.multiply %0, %s : (tensor<1x2x5x5x4xf32>, tensor<1x1x1x1x4xf32>) -> tensor<1x2x5x5x4xf32>
  return %1 : tensor<1x2x5x5x4xf32>
}
