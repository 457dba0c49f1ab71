// RUN: mlc-opt %s -p graph-quantize --split-input-file --verify-diagnostics | filecheck %s

// Data have one scale for their range, weights one a channel; other readers of the data read what is quantised.
// CHECK-LABEL: func.func @conv
// CHECK:         %[[q:.*]] = graph.quantize %{{.*}}, %{{.*}}, %{{.*}} : (tensor<1x16x8x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x16x8x8xui8>
// CHECK:         %[[x:.*]] = graph.dequantize %[[q]]
// CHECK:         %[[w:.*]] = graph.dequantize %{{.*}} {axis = 0} : (tensor<16x16x1x1xi8>, tensor<16xf32>, tensor<16xi8>) -> tensor<16x16x1x1xf32>
// CHECK:         %[[c:.*]] = graph.conv2d %[[x]], %[[w]]
// CHECK:         %[[b:.*]] = graph.dequantize %{{.*}} {axis = 0} : (tensor<16xi32>, tensor<16xf32>, tensor<16xi32>) -> tensor<16xf32>
// CHECK:         %[[y:.*]] = graph.bias_add %[[c]], %[[b]]
// CHECK:         graph.add %[[y]], %[[x]]
func.func @conv(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = graph.param "w" : tensor<16x16x1x1xf32>
  %b = graph.param "b" : tensor<16xf32>
  %0 = graph.relu %x : tensor<1x16x8x8xf32>
  %1 = graph.conv2d %0, %w {mlc.range = [0.0 : f64, 2.0 : f64]} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %2 = graph.bias_add %1, %b {axis = 1} : (tensor<1x16x8x8xf32>, tensor<16xf32>) -> tensor<1x16x8x8xf32>
  %3 = graph.add %2, %0 : tensor<1x16x8x8xf32>
  return %3 : tensor<1x16x8x8xf32>
}

// -----

// Without a range nothing happens.
// CHECK-LABEL: func.func @plain
// CHECK-NOT:     quantize
func.func @plain(%x: tensor<2x16xf32>) -> tensor<2x8xf32> {
  %w = graph.param "w" : tensor<8x16xf32>
  %0 = graph.dense %x, %w : (tensor<2x16xf32>, tensor<8x16xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// A bias that stands behind its convolution moves to where the weights' scales need it.
// CHECK-LABEL: func.func @late_bias
// CHECK:         %[[b:.*]] = graph.param "b"
// CHECK:         graph.abs %[[b]]
// CHECK:         graph.conv2d
func.func @late_bias(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = graph.param "w" : tensor<16x16x1x1xf32>
  %0 = graph.conv2d %x, %w {mlc.range = [0.0 : f64, 2.0 : f64]} : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %b = graph.param "b" : tensor<16xf32>
  %1 = graph.bias_add %0, %b {axis = 1} : (tensor<1x16x8x8xf32>, tensor<16xf32>) -> tensor<1x16x8x8xf32>
  return %1 : tensor<1x16x8x8xf32>
}
