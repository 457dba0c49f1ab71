// RUN: mlc-opt %s | mlc-opt | filecheck %s

// A blocked 3x3 convolution: padding is a stage of its own, a masked read.
// CHECK-LABEL: te.func @conv3x3
// CHECK:         te.compute "pad" (%n : 1, %co : 4, %h : 16, %w : 16, %ci : 16) {
// CHECK:           te.read %x[%n, %co, %h - 1, %w - 1, %ci] mask (%h - 1, -%h + 14, %w - 1, -%w + 14) else %{{.*}} : f32
// CHECK:         te.compute "conv2d" ({{.*}}) reduce (%ic : 4, %kh : 3, %kw : 3, %ib : 16) sum {
// CHECK:           te.read %pad[{{.*}}, %ic, %{{.*}} + %kh, %{{.*}} + %kw, %ib] : f32
// CHECK:         te.compute "out"
te.func @conv3x3(%x: tensor<1x4x14x14x16xf32>, %f: tensor<4x4x3x3x16x16xf32>, %b: tensor<4x16xf32>)
    -> tensor<1x4x14x14x16xf32> {
  %pad = te.compute "pad" (%n : 1, %co : 4, %h : 16, %w : 16, %ci : 16) {
    %zero = arith.constant 0.0 : f32
    %0 = te.read %x[%n, %co, %h - 1, %w - 1, %ci] mask (%h - 1, 14 - %h, %w - 1, 14 - %w) else %zero : f32
    te.yield %0 : f32
  } : tensor<1x4x16x16x16xf32> {no_inline}
  %conv2d = te.compute "conv2d" (%n : 1, %oc : 4, %oh : 14, %ow : 14, %ob : 16)
      reduce (%ic : 4, %kh : 3, %kw : 3, %ib : 16) sum {
    %0 = te.read %pad[%n, %ic, %oh + %kh, %ow + %kw, %ib] : f32
    %1 = te.read %f[%oc, %ic, %kh, %kw, %ib, %ob] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<1x4x14x14x16xf32>
  %out = te.compute "out" (%n : 1, %oc : 4, %oh : 14, %ow : 14, %ob : 16) {
    %0 = te.read %conv2d[%n, %oc, %oh, %ow, %ob] : f32
    %1 = te.read %b[%oc, %ob] : f32
    %2 = arith.addf %0, %1 : f32
    %zero = arith.constant 0.0 : f32
    %3 = arith.maximumf %2, %zero : f32
    te.yield %3 : f32
  } : tensor<1x4x14x14x16xf32>
  te.return %out : tensor<1x4x14x14x16xf32>
}
