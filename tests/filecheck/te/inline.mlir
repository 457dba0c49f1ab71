// RUN: mlc-opt %s --pass-pipeline=te-inline | filecheck %s

// An elementwise chain is one stage; index expressions compose.
// CHECK-LABEL: te.func @chain
// CHECK-NEXT:    te.compute "c" (%i : 4) {
// CHECK-NEXT:      %[[X:.*]] = te.read %x[-%i + 3] : f32
// CHECK-NEXT:      %[[A:.*]] = arith.negf %[[X]] : f32
// CHECK-NEXT:      %[[B:.*]] = math.exp %[[A]] : f32
// CHECK-NEXT:      te.yield %[[B]] : f32
te.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = te.compute "a" (%i : 4) {
    %0 = te.read %x[%i] : f32
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  %b = te.compute "b" (%i : 4) {
    %0 = te.read %a[%i] : f32
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  %c = te.compute "c" (%i : 4) {
    %0 = te.read %b[3 - %i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %c : tensor<4xf32>
}

// A value that costs much and is read for each of many elements stays.
// CHECK-LABEL: te.func @expensive
// CHECK:         te.compute "scale" (%{{.*}} : 4) {
// CHECK:         te.compute "out"
te.func @expensive(%x: tensor<4x8xf32>, %v: tensor<4xf32>) -> tensor<4x8xf32> {
  %s = te.compute "scale" (%i : 4) {
    %0 = te.read %v[%i] : f32
    %1 = math.rsqrt %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  %out = te.compute "out" (%i : 4, %j : 8) {
    %0 = te.read %x[%i, %j] : f32
    %1 = te.read %s[%i] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<4x8xf32>
  te.return %out : tensor<4x8xf32>
}

// The mask of a read goes to the reads of the inlined body, and what the read gave elsewhere stays.
// CHECK-LABEL: te.func @masked
// CHECK-NEXT:    te.compute "pad" (%i : 6) {
// CHECK:           %[[F:.*]] = arith.constant 7.000000e+00 : f32
// CHECK:           %[[X:.*]] = te.read %x[%i - 1] mask (%i - 1, -%i + 4) else %{{.*}} : f32
// CHECK:           %[[E:.*]] = math.exp %[[X]] : f32
// CHECK:           %[[S:.*]] = arith.select %{{.*}}, %[[E]], %[[F]] : f32
// CHECK:           te.yield %[[S]] : f32
te.func @masked(%x: tensor<4xf32>) -> tensor<6xf32> {
  %e = te.compute "exp" (%i : 4) {
    %0 = te.read %x[%i] : f32
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  %p = te.compute "pad" (%i : 6) {
    %0 = arith.constant 7.0 : f32
    %1 = te.read %e[%i - 1] mask (%i - 1, 4 - %i) else %0 : f32
    te.yield %1 : f32
  } : tensor<6xf32>
  te.return %p : tensor<6xf32>
}

// Of a stage that only moves, masks are joined: no selection is needed.
// CHECK-LABEL: te.func @moved
// CHECK-NEXT:    te.compute "pad" (%i : 6) {
// CHECK-NEXT:      %[[F:.*]] = arith.constant 7.000000e+00 : f32
// CHECK-NEXT:      te.read %x[-%i + 4] mask (%i - 1, -%i + 4) else %[[F]] : f32
// CHECK-NEXT:      te.yield
te.func @moved(%x: tensor<4xf32>) -> tensor<6xf32> {
  %r = te.compute "flip" (%i : 4) {
    %0 = te.read %x[3 - %i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  %p = te.compute "pad" (%i : 6) {
    %0 = arith.constant 7.0 : f32
    %1 = te.read %r[%i - 1] mask (%i - 1, 4 - %i) else %0 : f32
    te.yield %1 : f32
  } : tensor<6xf32>
  te.return %p : tensor<6xf32>
}

// A transpose is absorbed by a product's operand; what is marked, returned or a reduction stays.
// CHECK-LABEL: te.func @prologue
// CHECK-NEXT:    te.compute "product"
// CHECK-NEXT:      te.read %a[%k, %i] : f32
// CHECK:         te.compute "marked"
// CHECK:         te.compute "out"
te.func @prologue(%a: tensor<32x8xf32>, %b: tensor<32x9xf32>) -> tensor<8x9xf32> {
  %t = te.compute "transpose" (%i : 8, %j : 32) {
    %0 = te.read %a[%j, %i] : f32
    te.yield %0 : f32
  } : tensor<8x32xf32>
  %c = te.compute "product" (%i : 8, %j : 9) reduce (%k : 32) sum {
    %0 = te.read %t[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8x9xf32>
  %d = te.compute "marked" (%i : 8, %j : 9) {
    %0 = te.read %c[%i, %j] : f32
    te.yield %0 : f32
  } : tensor<8x9xf32> {no_inline}
  %e = te.compute "out" (%i : 8, %j : 9) {
    %0 = te.read %d[%i, %j] : f32
    te.yield %0 : f32
  } : tensor<8x9xf32>
  te.return %e : tensor<8x9xf32>
}
