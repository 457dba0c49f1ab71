// RUN: mlc-opt %s -p graph-simplify-qdq --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-simplify-qdq,graph-alter-op-layout{target=znver5}' --split-input-file | filecheck %s --check-prefix=LAYOUT

// Bytes are multiplied; the zero point surrounds the picture, what it adds is taken off; one multiplier a channel.
// CHECK-LABEL: func.func @conv
// CHECK:         %[[c:.*]] = graph.conv2d %x, %w {padding = [1, 1, 1, 1], out_dtype = "int32", pad_value = 3} : (tensor<1x16x8x8xui8>, tensor<32x16x3x3xi8>) -> tensor<1x32x8x8xi32>
// CHECK:         %[[sum:.*]] = graph.sum %{{.*}} {axes = [1, 2, 3]}
// CHECK:         graph.multiply %[[sum]], %
// CHECK:         %[[less:.*]] = graph.subtract %[[c]], %
// CHECK:         %[[f:.*]] = graph.cast %[[less]] : (tensor<1x32x8x8xi32>) -> tensor<1x32x8x8xf32>
// CHECK:         %[[m:.*]] = graph.multiply %[[f]], %
// CHECK-NEXT:    %[[r:.*]] = graph.round %[[m]]
// CHECK:         %[[q:.*]] = graph.clip %{{.*}} {min = 0.0, max = 255.0}
// CHECK-NEXT:    graph.cast %[[q]] : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xui8>
// LAYOUT-LABEL: func.func @conv
// LAYOUT:        graph.conv2d {{.*}}kernel_layout = "OIHW4i16o4i"
func.func @conv(%x: tensor<1x16x8x8xui8>) -> tensor<1x32x8x8xui8> {
  %w = graph.param "w" : tensor<32x16x3x3xi8>
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %sw = graph.param "sw" : tensor<32xf32>
  %zw = graph.full {value = 0.0} : tensor<32xi8>
  %0 = graph.dequantize %x, %s, %z : (tensor<1x16x8x8xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x16x8x8xf32>
  %1 = graph.dequantize %w, %sw, %zw {axis = 0} : (tensor<32x16x3x3xi8>, tensor<32xf32>, tensor<32xi8>) -> tensor<32x16x3x3xf32>
  %2 = graph.conv2d %0, %1 {padding = [1, 1, 1, 1]} : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32>
  %3 = graph.quantize %2, %s, %z : (tensor<1x32x8x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x32x8x8xui8>
  return %3 : tensor<1x32x8x8xui8>
}

// -----

// Signed data become unsigned ones, 128 more.
// CHECK-LABEL: func.func @signed
// CHECK:         graph.dense %{{.*}}, %w {out_dtype = "int32"} : (tensor<2x16xui8>, tensor<8x16xi8>) -> tensor<2x8xi32>
// LAYOUT-LABEL: func.func @signed
// LAYOUT:        graph.dense {{.*}}kernel_layout = "OI8o4i"
func.func @signed(%x: tensor<2x16xi8>) -> tensor<2x8xf32> {
  %w = graph.param "w" : tensor<8x16xi8>
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<-3> : tensor<i8>
  %zw = graph.constant dense<0> : tensor<i8>
  %0 = graph.dequantize %x, %s, %z : (tensor<2x16xi8>, tensor<f32>, tensor<i8>) -> tensor<2x16xf32>
  %1 = graph.dequantize %w, %s, %zw : (tensor<8x16xi8>, tensor<f32>, tensor<i8>) -> tensor<8x16xf32>
  %2 = graph.dense %0, %1 : (tensor<2x16xf32>, tensor<8x16xf32>) -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// -----

// What only moves values moves bytes; the same scale and zero point cancel, and so does relu with a zero point of 0.
// CHECK-LABEL: func.func @moves
// CHECK-NEXT:    %[[p:.*]] = graph.max_pool2d %x {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x4x8x8xui8>) -> tensor<1x4x4x4xui8>
// CHECK-NEXT:    %[[r:.*]] = graph.reshape %[[p]]
// CHECK-NEXT:    return %[[r]]
func.func @moves(%x: tensor<1x4x8x8xui8>) -> tensor<1x64xui8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<0> : tensor<ui8>
  %0 = graph.dequantize %x, %s, %z : (tensor<1x4x8x8xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x8x8xf32>
  %1 = graph.relu %0 : tensor<1x4x8x8xf32>
  %2 = graph.max_pool2d %1 {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %3 = graph.reshape %2 : (tensor<1x4x4x4xf32>) -> tensor<1x64xf32>
  %4 = graph.quantize %3, %s, %z : (tensor<1x64xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x64xui8>
  return %4 : tensor<1x64xui8>
}

// -----

// A view of values is a view of their bytes.
// CHECK-LABEL: func.func @viewed
// CHECK:         %[[v:.*]] = graph.reshape %x : (tensor<4x6xui8>) -> tensor<24xui8>
// CHECK-NEXT:    graph.cast %[[v]]
func.func @viewed(%x: tensor<4x6xui8>) -> tensor<24xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<0> : tensor<ui8>
  %0 = graph.dequantize %x, %s, %z : (tensor<4x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x6xf32>
  %1 = graph.reshape %0 : (tensor<4x6xf32>) -> tensor<24xf32>
  return %1 : tensor<24xf32>
}

// A picture is quantised before it grows, if its elements are only repeated.
// CHECK-LABEL: func.func @resized
// CHECK-NEXT:    %[[y:.*]] = graph.resize2d %x {size = [8, 8]} : (tensor<1x4x4x4xui8>) -> tensor<1x4x8x8xui8>
// CHECK-NEXT:    return %[[y]]
func.func @resized(%x: tensor<1x4x4x4xui8>) -> tensor<1x4x8x8xui8> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %0 = graph.dequantize %x, %s, %z : (tensor<1x4x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x4x4xf32>
  %1 = graph.resize2d %0 {size = [8, 8]} : (tensor<1x4x4x4xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.quantize %1, %s, %z : (tensor<1x4x8x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x4x8x8xui8>
  return %2 : tensor<1x4x8x8xui8>
}

// Between two are other values: those are computed.
// CHECK-LABEL: func.func @interpolated
// CHECK:         graph.resize2d {{.*}} mode = "linear"{{.*}} -> tensor<1x4x8x8xf32>
func.func @interpolated(%x: tensor<1x4x4x4xf32>, %s: tensor<f32>) -> tensor<1x4x8x8xui8> {
  %z = graph.constant dense<3> : tensor<ui8>
  %1 = graph.resize2d %x {size = [8, 8], mode = "linear"} : (tensor<1x4x4x4xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.quantize %1, %s, %z : (tensor<1x4x8x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x4x8x8xui8>
  return %2 : tensor<1x4x8x8xui8>
}

// -----

// Weights of a convolution with zero points, and groups, are multiplied in floats.
// CHECK-LABEL: func.func @floats
// CHECK:         graph.conv2d {{.*}} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
func.func @floats(%x: tensor<1x16x8x8xui8>) -> tensor<1x8x8x8xf32> {
  %w = graph.param "w" : tensor<8x16x1x1xui8>
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %0 = graph.dequantize %x, %s, %z : (tensor<1x16x8x8xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x16x8x8xf32>
  %1 = graph.dequantize %w, %s, %z : (tensor<8x16x1x1xui8>, tensor<f32>, tensor<ui8>) -> tensor<8x16x1x1xf32>
  %2 = graph.conv2d %0, %1 : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}

// -----

// Bytes that nothing reads as such are floats that are rounded.
// CHECK-LABEL: func.func @rounded
// CHECK:         %[[r:.*]] = graph.round
// CHECK-NEXT:    %[[c:.*]] = graph.clip %[[r]] {min = -3.0, max = 252.0}
// CHECK-NEXT:    %[[m:.*]] = graph.multiply %[[c]], %{{.*}}
// CHECK-NEXT:    graph.exp %[[m]]
// CHECK-NOT:     graph.cast
// LAYOUT-LABEL: func.func @rounded
func.func @rounded(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = graph.constant dense<0.5> : tensor<f32>
  %z = graph.constant dense<3> : tensor<ui8>
  %0 = graph.quantize %x, %s, %z : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %1 = graph.dequantize %0, %s, %z : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  %2 = graph.exp %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Transposed convolutions multiply bytes where the picture's zero point is 0, and become convolutions of words.
// CHECK-LABEL: func.func @transposed
// CHECK:         graph.conv2d_transpose %x, %w {strides = [2, 2], out_dtype = "int32"} : (tensor<1x16x4x4xui8>, tensor<16x24x2x2xi8>) -> tensor<1x24x8x8xi32>
// CHECK:         graph.conv2d_transpose {{.*}} : (tensor<1x16x4x4xf32>, tensor<16x24x2x2xf32>) -> tensor<1x24x8x8xf32>
// LAYOUT-LABEL: func.func @transposed
// LAYOUT:        graph.conv2d {{.*}}kernel_layout = "OIHW4i8o4i", out_dtype = "int32"
func.func @transposed(%x: tensor<1x16x4x4xui8>) -> (tensor<1x24x8x8xf32>, tensor<1x24x8x8xf32>) {
  %w = graph.param "w" : tensor<16x24x2x2xi8>
  %s = graph.constant dense<0.5> : tensor<f32>
  %sw = graph.param "sw" : tensor<24xf32>
  %zw = graph.full {value = 0.0} : tensor<24xi8>
  %none = graph.constant dense<0> : tensor<ui8>
  %some = graph.constant dense<3> : tensor<ui8>
  %0 = graph.dequantize %x, %s, %none : (tensor<1x16x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x16x4x4xf32>
  %1 = graph.dequantize %x, %s, %some : (tensor<1x16x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x16x4x4xf32>
  %2 = graph.dequantize %w, %sw, %zw {axis = 1} : (tensor<16x24x2x2xi8>, tensor<24xf32>, tensor<24xi8>) -> tensor<16x24x2x2xf32>
  %3 = graph.conv2d_transpose %0, %2 {strides = [2, 2]} : (tensor<1x16x4x4xf32>, tensor<16x24x2x2xf32>) -> tensor<1x24x8x8xf32>
  %4 = graph.conv2d_transpose %1, %2 {strides = [2, 2]} : (tensor<1x16x4x4xf32>, tensor<16x24x2x2xf32>) -> tensor<1x24x8x8xf32>
  return %3, %4 : tensor<1x24x8x8xf32>, tensor<1x24x8x8xf32>
}
