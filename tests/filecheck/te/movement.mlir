// RUN: mlc-opt %s | mlc-opt | filecheck %s

// Kernels that move data.
// CHECK-LABEL: te.func @transpose
// CHECK:         te.read %x[%j, %i] : f32
te.func @transpose(%x: tensor<24x40xf32>) -> tensor<40x24xf32> {
  %y = te.compute "transpose" (%i : 40, %j : 24) {
    %0 = te.read %x[%j, %i] : f32
    te.yield %0 : f32
  } : tensor<40x24xf32>
  te.return %y : tensor<40x24xf32>
}

// CHECK-LABEL: te.func @concat
// CHECK:         %[[B:.*]] = te.read %b[%{{.*}}, %{{.*}} - 8] mask (%{{.*}} - 8) else %{{.*}} : f32
// CHECK:         te.read %a[%{{.*}}, %{{.*}}] mask (-%{{.*}} + 7) else %[[B]] : f32
te.func @concat(%a: tensor<4x8xf32>, %b: tensor<4x12xf32>) -> tensor<4x20xf32> {
  %y = te.compute "concatenate" (%i : 4, %j : 20) {
    %zero = arith.constant 0.0 : f32
    %0 = te.read %b[%i, %j - 8] mask (%j - 8) else %zero : f32
    %1 = te.read %a[%i, %j] mask (7 - %j) else %0 : f32
    te.yield %1 : f32
  } : tensor<4x20xf32>
  te.return %y : tensor<4x20xf32>
}

// CHECK-LABEL: te.func @reshape
// CHECK:         te.read %x[%i floordiv 4, %j + (%i mod 4) * 10] : f32
te.func @reshape(%x: tensor<6x40xf32>) -> tensor<24x10xf32> {
  %y = te.compute "reshape" (%i : 24, %j : 10) {
    %0 = te.read %x[%i floordiv 4, (%i mod 4) * 10 + %j] : f32
    te.yield %0 : f32
  } : tensor<24x10xf32>
  te.return %y : tensor<24x10xf32>
}

// CHECK-LABEL: te.func @take
// CHECK:         %[[AT:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK:         te.read %x[%[[AT]], %{{.*}}] : f32
te.func @take(%x: tensor<100x16xf32>, %rows: tensor<4xi64>) -> tensor<4x16xf32> {
  %y = te.compute "take" (%i : 4, %j : 16) {
    %0 = te.read %rows[%i] : i64
    %at = arith.index_cast %0 : i64 to index
    %1 = te.read %x[%at, %j] : f32
    te.yield %1 : f32
  } : tensor<4x16xf32>
  te.return %y : tensor<4x16xf32>
}
