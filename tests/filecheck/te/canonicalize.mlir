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
