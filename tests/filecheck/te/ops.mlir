// RUN: mlc-opt %s | filecheck %s
// RUN: MLC_ROUNDTRIP

// Stages in order; the axes' names and extents, reductions and their combiners.
// CHECK-LABEL: te.func @dense(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
// CHECK-NEXT:    %y = te.compute "dense" (%i : 2, %j : 4) reduce (%k : 3) sum {
// CHECK-NEXT:      %a = te.read %x[%i, %k] : f32
// CHECK-NEXT:      %b = te.read %w[%j, %k] : f32
// CHECK-NEXT:      %c = arith.mulf %a, %b : f32
// CHECK-NEXT:      te.yield %c : f32
// CHECK-NEXT:    } : tensor<2x4xf32>
// CHECK-NEXT:    te.return %y : tensor<2x4xf32>
te.func @dense(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %y = te.compute "dense" (%i : 2, %j : 4) reduce (%k : 3) sum {
    %a = te.read %x[%i, %k] : f32
    %b = te.read %w[%j, %k] : f32
    %c = arith.mulf %a, %b : f32
    te.yield %c : f32
  } : tensor<2x4xf32>
  te.return %y : tensor<2x4xf32>
}

// Index arithmetic, a mask with its else value, an expression as a value.
// CHECK-LABEL: te.func @accesses
// CHECK:           %m = te.read %x[%i floordiv 2, %j * 2 - 1] mask (%j - 1, -%i + 6) else %z : f32
// CHECK-NEXT:      %n = te.index %i * 2 + %j + 1
te.func @accesses(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %y = te.compute "y" (%i : 8, %j : 4) {
    %z = arith.constant 0.0 : f32
    %m = te.read %x[%i floordiv 2, %j * 2 - 1] mask (%j - 1, 6 - %i) else %z : f32
    %n = te.index %i + %i + %j + 1
    %k = arith.index_cast %n : index to i32
    %f = arith.sitofp %k : i32 to f32
    %r = arith.addf %m, %f : f32
    te.yield %r : f32
  } : tensor<8x4xf32>
  te.return %y : tensor<8x4xf32>
}

// An index that is data: a gather.
// CHECK-LABEL: te.func @gather
// CHECK:           %v = te.read %x[%t, %j] : f32
te.func @gather(%x: tensor<4x8xf32>, %at: tensor<3xi64>) -> tensor<3x8xf32> {
  %y = te.compute "y" (%i : 3, %j : 8) {
    %s = te.read %at[%i] : i64
    %t = arith.index_cast %s : i64 to index
    %v = te.read %x[%t, %j] : f32
    te.yield %v : f32
  } : tensor<3x8xf32>
  te.return %y : tensor<3x8xf32>
}

// argmax reduces pairs: the value and its index. No spatial axis gives tensors of rank 0.
// CHECK-LABEL: te.func @argmax
// CHECK:         %m, %n = te.compute "best" () reduce (%k : 8) argmax {
// CHECK:           te.yield %v, %w : f32, i64
// CHECK-NEXT:    } : tensor<f32>, tensor<i64>
// CHECK-NEXT:    te.return %m, %n : tensor<f32>, tensor<i64>
te.func @argmax(%x: tensor<8xf32>) -> (tensor<f32>, tensor<i64>) {
  %m, %n = te.compute "best" () reduce (%k : 8) argmax {
    %v = te.read %x[%k] : f32
    %i = te.index %k
    %w = arith.index_cast %i : index to i64
    te.yield %v, %w : f32, i64
  } : tensor<f32>, tensor<i64>
  te.return %m, %n : tensor<f32>, tensor<i64>
}

// Attributes that no op declares are kept.
// CHECK-LABEL: te.func @tagged
// CHECK-SAME:      attributes {my.tag}
// CHECK:           te.read %x[%i] : f32 {my.tag}
// CHECK:           te.index %i {my.tag}
// CHECK:         } : tensor<4xf32> {my.tag}
te.func @tagged(%x: tensor<4xf32>) -> tensor<4xf32> attributes {my.tag} {
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32 {my.tag}
    %1 = te.index %i {my.tag}
    te.yield %0 : f32
  } : tensor<4xf32> {my.tag}
  te.return %y : tensor<4xf32>
}
