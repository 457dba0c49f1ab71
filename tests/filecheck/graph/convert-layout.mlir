// RUN: mlc-opt %s -p 'graph-convert-layout{desired=conv2d:NHWC:HWIO}' | filecheck %s
// RUN: mlc-opt %s -p graph-convert-layout | filecheck %s --check-prefix=PLAIN

// What surrounds convolutions computes in their layout: transposes are at the borders only.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[X:.*]] = graph.transpose %x {axes = [0, 2, 3, 1]}
// CHECK:         %[[A:.*]] = graph.conv2d %[[X]], %{{.*}} {padding = [1, 1, 1, 1], data_layout = "NHWC", kernel_layout = "HWIO"}
// CHECK-NEXT:    %[[B:.*]] = graph.bias_add %[[A]], %b {axis = 3}
// CHECK-NEXT:    %[[P:.*]] = graph.max_pool2d %[[B]] {pool_size = [2, 2], strides = [2, 2], layout = "NHWC"}
// CHECK-NEXT:    %[[C:.*]] = graph.concatenate %[[P]], %[[P]] {axis = 3}
// CHECK-NEXT:    %[[M:.*]] = graph.mean %[[C]] {axes = [1, 2], keepdims = true}
// CHECK-NEXT:    %[[D:.*]] = graph.subtract %[[C]], %[[M]]
// CHECK-NEXT:    graph.transpose %[[D]] {axes = [0, 3, 1, 2]}
// PLAIN-LABEL: func.func @chain
// PLAIN-NOT:     graph.transpose
// PLAIN:         return
func.func @chain(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x8x4x4xf32> {
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.bias_add %0, %b : (tensor<1x4x8x8xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.max_pool2d %1 {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %3 = graph.concatenate %2, %2 {axis = 1} : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x8x4x4xf32>
  %4 = graph.mean %3 {axes = [2, 3], keepdims = true} : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
  %5 = graph.subtract %3, %4 : (tensor<1x8x4x4xf32>, tensor<1x8x1x1xf32>) -> tensor<1x8x4x4xf32>
  return %5 : tensor<1x8x4x4xf32>
}

// The transposes of a model that came from NHWC cancel, either way.
// CHECK-LABEL: func.func @from_nhwc
// CHECK-NOT:     graph.transpose %x
// CHECK:         %[[A:.*]] = graph.conv2d %x, %{{.*}} {data_layout = "NHWC", kernel_layout = "HWIO"}
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[A]]
// CHECK:         %[[B:.*]] = graph.conv2d %[[R]], %{{.*}} {data_layout = "NHWC", kernel_layout = "HWIO"}
// CHECK-NEXT:    return %[[B]]
// PLAIN-LABEL: func.func @from_nhwc
// PLAIN-NEXT:    %[[X:.*]] = graph.transpose %x {axes = [0, 3, 1, 2]}
// PLAIN-NEXT:    %[[A:.*]] = graph.conv2d %[[X]], %w :
// PLAIN-NEXT:    %[[R:.*]] = graph.relu %[[A]]
// PLAIN-NEXT:    %[[B:.*]] = graph.conv2d %[[R]], %w :
// PLAIN-NEXT:    %[[Y:.*]] = graph.transpose %[[B]] {axes = [0, 2, 3, 1]}
// PLAIN-NEXT:    return %[[Y]]
func.func @from_nhwc(%x: tensor<1x8x8x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x8x8x4xf32> {
  %0 = graph.transpose %x {axes = [0, 3, 1, 2]} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.conv2d %0, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.transpose %1 {axes = [0, 2, 3, 1]} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8x4xf32>
  %3 = graph.relu %2 : tensor<1x8x8x4xf32>
  %4 = graph.transpose %3 {axes = [0, 3, 1, 2]} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
  %5 = graph.conv2d %4, %w : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %6 = graph.transpose %5 {axes = [0, 2, 3, 1]} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8x4xf32>
  return %6 : tensor<1x8x8x4xf32>
}

// Transposes that have nothing to do with a convolution stay where they are.
// CHECK-LABEL: func.func @elsewhere
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %x
// CHECK-NEXT:    graph.exp %[[T]]
func.func @elsewhere(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32> {
  %0 = graph.transpose %x {axes = [0, 3, 1, 2]} : (tensor<1x8x8x4xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.exp %0 : tensor<1x4x8x8xf32>
  return %1 : tensor<1x4x8x8xf32>
}
