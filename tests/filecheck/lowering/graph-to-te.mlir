// RUN: mlc-opt %s --pass-pipeline=convert-graph-to-te | filecheck %s

// Only functions marked as kernels are lowered.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @names(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: te.func @dense_bias(%x: tensor<2x7xf32>, %w: tensor<5x7xf32>, %b: tensor<5xf32>) -> tensor<2x5xf32>
// CHECK:         %[[D:.*]] = te.compute "dense" (%i : 2, %j : 5) reduce (%k : 7) sum {
// CHECK-NEXT:      %[[X:.*]] = te.read %x[%i, %k] : f32
// CHECK-NEXT:      %[[W:.*]] = te.read %w[%j, %k] : f32
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[X]], %[[W]] : f32
// CHECK-NEXT:      te.yield %[[P]] : f32
// CHECK:         te.compute "bias_add"
// CHECK:           te.read %[[D]][%{{.*}}, %{{.*}}] : f32
func.func private @dense_bias(%x: tensor<2x7xf32>, %w: tensor<5x7xf32>, %b: tensor<5xf32>) -> tensor<2x5xf32>
    attributes {graph.kernel} {
  %0 = graph.dense %x, %w : (tensor<2x7xf32>, tensor<5x7xf32>) -> tensor<2x5xf32>
  %1 = graph.bias_add %0, %b : tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
}

// Padding is a stage of its own that te-inline leaves alone; strides and dilation are in the indices.
// CHECK-LABEL: te.func @conv_blocked
// CHECK:         %[[P:.*]] = te.compute "pad" (%n : 1, %c_o : 2, %h : 17, %w_1 : 16, %c_i : 4) {
// CHECK:           te.read %x[%n, %c_o, %h - 1, %w_1, %c_i] mask (%h - 1, -%h + 15, -%w_1 + 14) else %{{.*}} : f32
// CHECK:         } : tensor<1x2x17x16x4xf32> {no_inline}
// CHECK:         te.compute "conv2d" (%n_1 : 1, %oc_o : 3, %oh : 8, %ow : 14, %oc_i : 8) reduce
// CHECK-SAME:        (%ic_o : 2, %kh : 3, %kw : 3, %ic_i : 4) sum {
// CHECK-NEXT:      te.read %[[P]][%n_1, %ic_o, %oh * 2 + %kh, %ow + %kw, %ic_i] : f32
// CHECK-NEXT:      te.read %w[%oc_o, %ic_o, %kh, %kw, %ic_i, %oc_i] : f32
func.func private @conv_blocked(%x: tensor<1x2x15x15x4xf32>, %w: tensor<3x2x3x3x4x8xf32>) -> tensor<1x3x8x14x8xf32>
    attributes {graph.kernel} {
  %0 = graph.conv2d %x, %w {data_layout = "NCHW4c", kernel_layout = "OIHW4i8o", strides = [2, 1], padding = [1, 0, 1, 1]} :
    (tensor<1x2x15x15x4xf32>, tensor<3x2x3x3x4x8xf32>) -> tensor<1x3x8x14x8xf32>
  return %0 : tensor<1x3x8x14x8xf32>
}

// A depthwise convolution reduces over the window alone.
// CHECK-LABEL: te.func @depthwise
// CHECK-NOT:     "pad"
// CHECK:         reduce (%kh : 3, %kw : 3) sum {
// CHECK-NEXT:      te.read %x[%n, %oc_o, %oh + %kh, %ow + %kw, %oc_i] : f32
// CHECK-NEXT:      te.read %w[%oc_o, 0, %kh, %kw, %oc_i] : f32
func.func private @depthwise(%x: tensor<1x2x5x5x4xf32>, %w: tensor<2x1x3x3x4xf32>) -> tensor<1x2x3x3x4xf32>
    attributes {graph.kernel} {
  %0 = graph.conv2d %x, %w {data_layout = "NCHW4c", kernel_layout = "OIHW4o", groups = 8} :
    (tensor<1x2x5x5x4xf32>, tensor<2x1x3x3x4xf32>) -> tensor<1x2x3x3x4xf32>
  return %0 : tensor<1x2x3x3x4xf32>
}

// Division by block sizes vanishes where the ranges allow it.
// CHECK-LABEL: te.func @reshape
// CHECK:         te.read %x[%{{.*}}, %i2 floordiv 4, (%i2 mod 4)] : f32
func.func private @reshape(%x: tensor<6x5x4xf32>) -> tensor<2x3x20xf32> attributes {graph.kernel} {
  %0 = graph.reshape %x : (tensor<6x5x4xf32>) -> tensor<2x3x20xf32>
  return %0 : tensor<2x3x20xf32>
}

// Channels that the blocks add are zeros.
// CHECK-LABEL: te.func @to_blocked
// CHECK:         te.read %x[%i0, %i1 * 4 + %i4, %i2, %i3] mask (-%i1 * 4 - %i4 + 6) else %{{.*}} : f32
func.func private @to_blocked(%x: tensor<1x7x3x3xf32>) -> tensor<1x2x3x3x4xf32> attributes {graph.kernel} {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : (tensor<1x7x3x3xf32>) -> tensor<1x2x3x3x4xf32>
  return %0 : tensor<1x2x3x3x4xf32>
}

// CHECK-LABEL: te.func @softmax
// CHECK:         te.compute "max" (%i0 : 3) reduce (%k : 10) max {
// CHECK:         te.compute "exp" (
// CHECK:         te.compute "sum" (%{{.*}} : 3) reduce (%{{.*}} : 10) sum {
// CHECK:         te.compute "scale" (%{{.*}} : 3) {
// CHECK:           arith.divf
// CHECK:         te.compute "softmax" (
// CHECK:           arith.mulf
func.func private @softmax(%x: tensor<3x10xf32>) -> tensor<3x10xf32> attributes {graph.kernel} {
  %0 = graph.softmax %x : tensor<3x10xf32>
  return %0 : tensor<3x10xf32>
}

// Fills take no memory; integers have no sign, operations have.
// CHECK-LABEL: te.func @unsigned(%x: tensor<4xi8>) -> tensor<4xf32>
// CHECK:         %[[C:.*]] = arith.constant 7 : i8
// CHECK:         arith.minui %{{.*}}, %[[C]] : i8
// CHECK:         arith.uitofp
func.func private @unsigned(%x: tensor<4xui8>) -> tensor<4xf32> attributes {graph.kernel} {
  %c = graph.full {value = 7.0} : tensor<4xui8>
  %0 = graph.minimum %x, %c : tensor<4xui8>
  %1 = graph.cast %0 : (tensor<4xui8>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A stage has the location of its op.
// CHECK-LABEL: te.func @names
// CHECK:         te.compute "exp"
// CHECK:         te.compute "exp_1"
func.func private @names(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.kernel} {
  %0 = graph.exp %x : tensor<4xf32>
  %1 = graph.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
