// RUN: mlc-opt %s | mlc-opt | filecheck %s

// A dense layer with its bias and activation: a reduction and an elementwise stage.
// CHECK-LABEL: te.func @dense_bias_relu
// CHECK:         %dense = te.compute "dense" (%i : 1, %j : 256) reduce (%k : 784) sum {
// CHECK:           te.read %x[%i, %k] : f32
// CHECK:           te.read %w[%j, %k] : f32
// CHECK:         te.compute "relu" (%{{.*}} : 1, %{{.*}} : 256) {
// CHECK:         te.return %{{.*}} : tensor<1x256xf32>
te.func @dense_bias_relu(%x: tensor<1x784xf32>, %w: tensor<256x784xf32>, %b: tensor<256xf32>) -> tensor<1x256xf32> {
  %dense = te.compute "dense" (%i : 1, %j : 256) reduce (%k : 784) sum {
    %0 = te.read %x[%i, %k] : f32
    %1 = te.read %w[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<1x256xf32>
  %relu = te.compute "relu" (%i : 1, %j : 256) {
    %0 = te.read %dense[%i, %j] : f32
    %1 = te.read %b[%j] : f32
    %2 = arith.addf %0, %1 : f32
    %zero = arith.constant 0.0 : f32
    %3 = arith.maximumf %2, %zero : f32
    te.yield %3 : f32
  } : tensor<1x256xf32>
  te.return %relu : tensor<1x256xf32>
}
