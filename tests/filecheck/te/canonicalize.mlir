// RUN: mlc-opt %s --pass-pipeline=canonicalize,cse | filecheck %s

// Stages are pure: one that nobody reads goes, and of equal reads one is left.
// CHECK-LABEL: te.func @dead
// CHECK-NEXT:    te.compute "y" (%i : 4) {
// CHECK-NEXT:      %[[X:.*]] = te.read %x[%i] : f32
// CHECK-NEXT:      %[[Y:.*]] = arith.addf %[[X]], %[[X]] : f32
// CHECK-NEXT:      te.yield %[[Y]] : f32
te.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %unused = te.compute "unused" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    %1 = te.read %x[%i] : f32
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// What computes an index that nobody uses goes; scalars fold as upstream's dialects do.
// CHECK-LABEL: te.func @scalars
// CHECK-NEXT:    te.compute "y" (%i : 4) {
// CHECK-NEXT:      %[[X:.*]] = te.read %x[%i] : i32
// CHECK-NEXT:      te.yield %[[X]] : i32
te.func @scalars(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = te.compute "y" (%i : 4) {
    %n = te.index %i * 2
    %0 = te.read %x[%i] : i32
    %c = arith.constant 0 : i32
    %1 = arith.addi %0, %c : i32
    te.yield %1 : i32
  } : tensor<4xi32>
  te.return %y : tensor<4xi32>
}

// Index expressions and masks are canonical as they are parsed.
// CHECK-LABEL: te.func @expressions
// CHECK:           te.read %x[%i * 2 + 1] mask (%i - 1) else
te.func @expressions(%x: tensor<9xf32>, %z: f32) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i + 1 + %i + 0 * %i] mask (%i * 2 - 1 - %i) else %z : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}
