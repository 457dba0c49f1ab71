// RUN: mlc-opt %s -p graph-simplify-inference | filecheck %s

// The scale goes into the weights, the shift into a bias; both are ops on weights, for graph-fold-constant.
// CHECK-LABEL: func.func @batch_norm
// CHECK:         %[[S:.*]] = graph.divide %g, %{{.*}} : tensor<4xf32>
// CHECK:         %[[W:.*]] = graph.multiply %w, %{{.*}} : (tensor<4x3x1x1xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x1x1xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.conv2d %x, %[[W]]
// CHECK-NEXT:    %[[B:.*]] = graph.bias_add %[[C]], %{{.*}} : tensor<1x4x5x5xf32>
// CHECK-NEXT:    return %[[B]]
func.func @batch_norm(%x: tensor<1x3x5x5xf32>) -> tensor<1x4x5x5xf32> {
  %w = graph.param "w" : tensor<4x3x1x1xf32>
  %g = graph.param "g" : tensor<4xf32>
  %b = graph.param "b" : tensor<4xf32>
  %m = graph.param "m" : tensor<4xf32>
  %v = graph.param "v" : tensor<4xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.batch_norm %0, %g, %b, %m, %v : tensor<1x4x5x5xf32>
  return %1 : tensor<1x4x5x5xf32>
}

// A convolution with two readers keeps its weights: the scale would reach both.
// CHECK-LABEL: func.func @two_readers
// CHECK:         graph.conv2d %x, %w
// CHECK:         graph.multiply {{.*}} : (tensor<1x4x5x5xf32>
func.func @two_readers(%x: tensor<1x3x5x5xf32>) -> (tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32>) {
  %w = graph.param "w" : tensor<4x3x1x1xf32>
  %s = graph.param "s" : tensor<4x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x5x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x5xf32>
  %1 = graph.multiply %0, %s : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>) -> tensor<1x4x5x5xf32>
  return %0, %1 : tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32>
}

// CHECK-LABEL: func.func @dense
// CHECK:         graph.dense %x, %{{.*}} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
// CHECK:         graph.subtract %{{.*}}, %b : tensor<4xf32>
// CHECK-NEXT:    graph.bias_add %{{.*}}, %{{.*}} : tensor<2x4xf32>
// CHECK-NEXT:    return
func.func @dense(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = graph.param "w" : tensor<3x4xf32>
  %b = graph.param "b" : tensor<4xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.batch_matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = graph.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = graph.divide %1, %two : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %3 = graph.subtract %2, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK-NEXT:    %g = graph.param "g"
// CHECK-NEXT:    %b = graph.param "b"
// CHECK-NEXT:    %[[L:.*]] = graph.layer_norm %x, %g, %b {epsilon = 0.5} : tensor<2x5x8xf32>
// CHECK-NEXT:    return %[[L]]
func.func @layer_norm(%x: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %g = graph.param "g" : tensor<8xf32>
  %b = graph.param "b" : tensor<8xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %e = graph.constant dense<0.5> : tensor<1xf32>
  %0 = graph.mean %x {axes = [-1], keepdims = true} : (tensor<2x5x8xf32>) -> tensor<2x5x1xf32>
  %1 = graph.subtract %x, %0 : (tensor<2x5x8xf32>, tensor<2x5x1xf32>) -> tensor<2x5x8xf32>
  %2 = graph.power %1, %two : (tensor<2x5x8xf32>, tensor<f32>) -> tensor<2x5x8xf32>
  %3 = graph.mean %2 {axes = [2], keepdims = true} : (tensor<2x5x8xf32>) -> tensor<2x5x1xf32>
  %4 = graph.add %3, %e : (tensor<2x5x1xf32>, tensor<1xf32>) -> tensor<2x5x1xf32>
  %5 = graph.sqrt %4 : tensor<2x5x1xf32>
  %6 = graph.divide %1, %5 : (tensor<2x5x8xf32>, tensor<2x5x1xf32>) -> tensor<2x5x8xf32>
  %7 = graph.multiply %6, %g : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  %8 = graph.add %7, %b : (tensor<2x5x8xf32>, tensor<8xf32>) -> tensor<2x5x8xf32>
  return %8 : tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @activations
// CHECK-NEXT:    {{.*}} = graph.gelu %x
// CHECK-NEXT:    {{.*}} = graph.silu %x
// CHECK-NEXT:    {{.*}} = graph.hard_swish %x
// CHECK-NEXT:    {{.*}} = graph.hard_sigmoid %x {alpha = 0.25}
// CHECK-NEXT:    {{.*}} = graph.sigmoid %x
// CHECK-NEXT:    return
func.func @activations(%x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %root = graph.constant dense<1.41421356> : tensor<f32>
  %0 = graph.divide %x, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.erf %0 : tensor<4xf32>
  %2 = graph.add %1, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.multiply %x, %2 : tensor<4xf32>
  %gelu = graph.multiply %3, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = graph.sigmoid %x : tensor<4xf32>
  %silu = graph.multiply %4, %x : tensor<4xf32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<f32>
  %5 = graph.add %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = graph.clip %5 {min = 0.0, max = 6.0} : tensor<4xf32>
  %7 = graph.multiply %x, %6 : tensor<4xf32>
  %swish = graph.divide %7, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %quarter = graph.constant dense<0.25> : tensor<f32>
  %8 = graph.add %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %9 = graph.clip %8 {min = 0.0, max = 4.0} : tensor<4xf32>
  %hard = graph.multiply %9, %quarter : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %10 = graph.neg %x : tensor<4xf32>
  %11 = graph.exp %10 : tensor<4xf32>
  %12 = graph.add %one, %11 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %sigmoid = graph.divide %one, %12 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %gelu, %silu, %swish, %hard, %sigmoid : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @global_pool
// CHECK-NEXT:    graph.mean %x {axes = [2, 3], keepdims = true}
func.func @global_pool(%x: tensor<1x4x5x6xf32>) -> tensor<1x4x1x1xf32> {
  %0 = graph.avg_pool2d %x {pool_size = [5, 6]} : (tensor<1x4x5x6xf32>) -> tensor<1x4x1x1xf32>
  return %0 : tensor<1x4x1x1xf32>
}

// A product with one-hot rows is a look-up; what is out of range finds a row of zeros.
// CHECK-LABEL: func.func @one_hot
// CHECK:         %[[T:.*]] = graph.concatenate %{{.*}}, %{{.*}} {axis = 0} : (tensor<9x4xf32>, tensor<1x4xf32>) -> tensor<10x4xf32>
// CHECK-NEXT:    graph.take %[[T]], %{{.*}} : (tensor<10x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
func.func @one_hot(%i: tensor<6x1xi32>) -> tensor<6x4xf32> {
  %w = graph.param "w" : tensor<4x9xf32>
  %n = graph.iota {axis = 1} : tensor<1x9xi32>
  %0 = graph.equal %i, %n : (tensor<6x1xi32>, tensor<1x9xi32>) -> tensor<6x9xi1>
  %1 = graph.cast %0 : (tensor<6x9xi1>) -> tensor<6x9xf32>
  %2 = graph.dense %1, %w : (tensor<6x9xf32>, tensor<4x9xf32>) -> tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    graph.softmax %x {axis = 1}
// CHECK-NEXT:    return
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.max %x {axes = [1], keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %1 = graph.subtract %x, %0 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %2 = graph.exp %1 : tensor<2x3xf32>
  %3 = graph.sum %2 {axes = [1], keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %4 = graph.divide %2, %3 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @negative
// CHECK-NEXT:    %[[A:.*]] = graph.add %x, %y
// CHECK-NEXT:    return %[[A]]
func.func @negative(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.neg %y : tensor<4xf32>
  %1 = graph.subtract %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @biases
// CHECK:         %[[B:.*]] = graph.add %a, %b
// CHECK-NEXT:    %[[Y:.*]] = graph.bias_add %x, %[[B]] {axis = -1}
// CHECK-NEXT:    return %[[Y]]
func.func @biases(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %a = graph.param "a" : tensor<4xf32>
  %b = graph.param "b" : tensor<4xf32>
  %0 = graph.bias_add %x, %a {axis = 2} : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.bias_add %0, %b {axis = -1} : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// The scale of an attention's queries goes behind the product.
// CHECK-LABEL: func.func @scaled_queries
// CHECK:         %[[P:.*]] = graph.batch_matmul %q, %k
// CHECK-NEXT:    %[[Y:.*]] = graph.multiply %[[P]], %
// CHECK-NEXT:    return %[[Y]]
func.func @scaled_queries(%q: tensor<2x3x4xf32>, %k: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %c = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.multiply %q, %c : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %1 = graph.batch_matmul %0, %k : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// CHECK-LABEL: func.func @mean
// CHECK-NEXT:    graph.mean %x {axes = [1]}
// CHECK-NEXT:    return
func.func @mean(%x: tensor<2x8xf32>) -> tensor<2xf32> {
  %n = graph.constant dense<8.0> : tensor<f32>
  %0 = graph.sum %x {axes = [1]} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1 = graph.divide %0, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// How many elements an open axis has is not known here.
// CHECK-LABEL: func.func @open_mean
// CHECK:         graph.sum %x {axes = [1]}
// CHECK-NEXT:    graph.divide
func.func @open_mean(%x: tensor<2x?xf32, #graph.dims<[N]>>) -> tensor<2xf32> {
  %n = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.sum %x {axes = [1]} : (tensor<2x?xf32, #graph.dims<[N]>>) -> tensor<2xf32>
  %1 = graph.divide %0, %n : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The maximum over a large window: over its columns, then over its rows.
// CHECK-LABEL: func.func @large_window
// CHECK-NEXT:    %[[R:.*]] = graph.max_pool2d %x {pool_size = [1, 5], strides = [1, 2], padding = [0, 1, 0, 2]{{.*}}<1x2x20x9xf32>
// CHECK-NEXT:    %[[M:.*]] = graph.max_pool2d %[[R]] {pool_size = [5, 1], padding = [2, 0, 1, 0]
// CHECK-NEXT:    return %[[M]]
func.func @large_window(%x: tensor<1x2x20x18xf32>) -> tensor<1x2x19x9xf32> {
  %0 = graph.max_pool2d %x {pool_size = [5, 5], strides = [1, 2], padding = [2, 1, 1, 2]} : (tensor<1x2x20x18xf32>) -> tensor<1x2x19x9xf32>
  return %0 : tensor<1x2x19x9xf32>
}

// CHECK-LABEL: func.func @small_window
// CHECK-NEXT:    graph.max_pool2d %x {pool_size = [3, 3]
// CHECK-NEXT:    return
func.func @small_window(%x: tensor<1x2x20x18xf32>) -> tensor<1x2x18x16xf32> {
  %0 = graph.max_pool2d %x {pool_size = [3, 3]} : (tensor<1x2x20x18xf32>) -> tensor<1x2x18x16xf32>
  return %0 : tensor<1x2x18x16xf32>
}

// CHECK-LABEL: func.func @power_of_three_quarters
// CHECK:         %[[R:.*]] = graph.sqrt %x
// CHECK-NEXT:    %[[F:.*]] = graph.sqrt %[[R]]
// CHECK-NEXT:    graph.multiply %[[R]], %[[F]]
func.func @power_of_three_quarters(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p = graph.constant dense<0.75> : tensor<f32>
  %0 = graph.power %x, %p : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
