// RUN: mlc-opt %s | mlc-opt | filecheck %s

// Kernels over rows: several stages, each read by the next.
// CHECK-LABEL: te.func @softmax
// CHECK:         %max = te.compute "max" (%{{.*}} : 8) reduce (%{{.*}} : 40) max {
// CHECK:         %exp = te.compute "exp" (%{{.*}} : 8, %{{.*}} : 40) {
// CHECK:         %sum = te.compute "sum" (%{{.*}} : 8) reduce (%{{.*}} : 40) sum {
// CHECK:         te.compute "softmax" (%{{.*}} : 8, %{{.*}} : 40) {
te.func @softmax(%x: tensor<8x40xf32>) -> tensor<8x40xf32> {
  %max = te.compute "max" (%i : 8) reduce (%k : 40) max {
    %0 = te.read %x[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<8xf32>
  %exp = te.compute "exp" (%i : 8, %j : 40) {
    %0 = te.read %x[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<8x40xf32>
  %sum = te.compute "sum" (%i : 8) reduce (%k : 40) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<8xf32>
  %out = te.compute "softmax" (%i : 8, %j : 40) {
    %0 = te.read %exp[%i, %j] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x40xf32>
  te.return %out : tensor<8x40xf32>
}

// CHECK-LABEL: te.func @layer_norm
// CHECK:         te.compute "mean_sum"
// CHECK:         te.compute "var_sum"
// CHECK:         te.compute "layer_norm"
te.func @layer_norm(%x: tensor<8x40xf32>, %g: tensor<40xf32>, %b: tensor<40xf32>) -> tensor<8x40xf32> {
  %sum = te.compute "mean_sum" (%i : 8) reduce (%k : 40) sum {
    %0 = te.read %x[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<8xf32>
  %mean = te.compute "mean" (%i : 8) {
    %0 = te.read %sum[%i] : f32
    %n = arith.constant 0.025 : f32
    %1 = arith.mulf %0, %n : f32
    te.yield %1 : f32
  } : tensor<8xf32>
  %var = te.compute "var_sum" (%i : 8) reduce (%k : 40) sum {
    %0 = te.read %x[%i, %k] : f32
    %1 = te.read %mean[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = arith.mulf %2, %2 : f32
    te.yield %3 : f32
  } : tensor<8xf32>
  %scale = te.compute "scale" (%i : 8) {
    %0 = te.read %var[%i] : f32
    %n = arith.constant 0.025 : f32
    %epsilon = arith.constant 1.0e-5 : f32
    %1 = arith.mulf %0, %n : f32
    %2 = arith.addf %1, %epsilon : f32
    %3 = math.rsqrt %2 : f32
    te.yield %3 : f32
  } : tensor<8xf32>
  %out = te.compute "layer_norm" (%i : 8, %j : 40) {
    %0 = te.read %x[%i, %j] : f32
    %1 = te.read %mean[%i] : f32
    %2 = te.read %scale[%i] : f32
    %3 = te.read %g[%j] : f32
    %4 = te.read %b[%j] : f32
    %5 = arith.subf %0, %1 : f32
    %6 = arith.mulf %5, %2 : f32
    %7 = arith.mulf %6, %3 : f32
    %8 = arith.addf %7, %4 : f32
    te.yield %8 : f32
  } : tensor<8x40xf32>
  te.return %out : tensor<8x40xf32>
}

// CHECK-LABEL: te.func @argmax
// CHECK:         te.compute "argmax" (%{{.*}} : 8) reduce (%{{.*}} : 40) argmax {
// CHECK:           te.yield %{{.*}}, %{{.*}} : f32, i64
// CHECK:         } : tensor<8xf32>, tensor<8xi64>
te.func @argmax(%x: tensor<8x40xf32>) -> tensor<8xi64> {
  %value, %index = te.compute "argmax" (%i : 8) reduce (%k : 40) argmax {
    %0 = te.read %x[%i, %k] : f32
    %1 = arith.index_cast %k : index to i64
    te.yield %0, %1 : f32, i64
  } : tensor<8xf32>, tensor<8xi64>
  te.return %index : tensor<8xi64>
}
