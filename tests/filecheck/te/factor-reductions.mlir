// RUN: mlc-opt %s -p te-factor-reductions | filecheck %s
// RUN: mlc-opt %s -p te-factor-reductions --validate-each | filecheck %s --check-prefix=VALID

// The factor of a row moves behind the sum, which has fewer elements than what is summed.
// CHECK-LABEL: te.func @row_factor
// CHECK:         te.compute "p" (%i : 8, %k : 8) {
// CHECK-NEXT:      te.read %e
// CHECK-NEXT:      te.yield
// CHECK:         te.compute "o" (%i_1 : 8, %j : 4) reduce (%k_1 : 8) sum {
// CHECK:         te.compute "o_scaled" (%i_2 : 8, %j_1 : 4) {
// CHECK:           te.read %s[%i_2] : f32
// CHECK-NEXT:      arith.mulf
// VALID:       te.func @row_factor
te.func @row_factor(%e: tensor<8x8xf32>, %s: tensor<8xf32>, %v: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %p = te.compute "p" (%i : 8, %k : 8) {
    %0 = te.read %e[%i, %k] : f32
    %1 = te.read %s[%i] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x8xf32>
  %o = te.compute "o" (%i : 8, %j : 4) reduce (%k : 8) sum {
    %0 = te.read %p[%i, %k] : f32
    %1 = te.read %v[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x4xf32>
  te.return %o : tensor<8x4xf32>
}

// A factor that the sum runs over stays, and so does one where the sum has more elements.
// CHECK-LABEL: te.func @stays
// CHECK-NOT:     _scaled
// CHECK:         te.return
te.func @stays(%e: tensor<8x8xf32>, %s: tensor<8xf32>, %v: tensor<8x4xf32>, %w: tensor<8x32xf32>)
    -> (tensor<8x4xf32>, tensor<8x32xf32>) {
  %p = te.compute "p" (%i : 8, %k : 8) {
    %0 = te.read %e[%i, %k] : f32
    %1 = te.read %s[%k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x8xf32>
  %q = te.compute "q" (%i : 8, %k : 8) {
    %0 = te.read %e[%i, %k] : f32
    %1 = te.read %s[%i] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x8xf32>
  %o = te.compute "o" (%i : 8, %j : 4) reduce (%k : 8) sum {
    %0 = te.read %p[%i, %k] : f32
    %1 = te.read %v[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x4xf32>
  %r = te.compute "r" (%i : 8, %j : 32) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %w[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x32xf32>
  te.return %o, %r : tensor<8x4xf32>, tensor<8x32xf32>
}
