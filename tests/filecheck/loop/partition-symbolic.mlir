// RUN: mlc-opt %s -p loop-partition | filecheck %s

// Whole tiles, then the ragged one: moved back to end with the axis where there is room and more than half of it is
// left; else by tiles of half the size.
// CHECK-LABEL: loop.func @rows
// CHECK:         loop.for %{{.*}} = 0 to %n floordiv 4 {
// CHECK:             loop.block "copy" (%{{.*}} : %n = %{{.*}} * 4 + %{{.*}}, %{{.*}}) {
// CHECK:         loop.for %{{.*}} = %n floordiv 4 to (%n + 3) floordiv 4 {
// CHECK-NEXT:      loop.for %main = 0 to ((%n + {{.*}} + (%n - %{{.*}} * 4 + {{.*}}) floordiv 2 {
// CHECK:             loop.block "copy" (%{{.*}} : %n = %n + %{{.*}} - 4, %{{.*}}) {
// CHECK:           loop.for %ragged = 0 to {{.*}} {
// CHECK-NEXT:        loop.for %part = 0 to -%{{.*}} * 2 + (%n + 1) floordiv 2 {
// CHECK:                 loop.block "copy" (%{{.*}} : %n = %{{.*}} * 4 + %part * 2 + %{{.*}}, %{{.*}}) {
// CHECK:           } attributes {cold}
// CHECK-NOT:     where
loop.func @rows(%A: memref<?x16xf32>, %B: memref<?x16xf32>, %n: index)
    attributes {outputs = 1 : i64, sizes = [#te.map<"%0, 16">, #te.map<"%0, 16">], least = array<i64: 1>} {
  loop.for %o = 0 to (%n + 3) floordiv 4 {
    loop.for %i = 0 to 4 vectorized {
      loop.for %j = 0 to 16 vectorized {
        loop.block "copy" (%vi : %n = %o * 4 + %i, %vj : 16 = %j) where (%n - %o * 4 - %i - 1) {
          %x = loop.load %A[%vi, %vj] : f32
          loop.store %x, %B[%vi, %vj] : f32
        }
      }
    }
  }
}

// A sum takes each point once: its last tile stays where it is, with its predicate.
// CHECK-LABEL: loop.func @sum
// CHECK:         loop.for %{{.*}} = 0 to %n floordiv 16 {
// CHECK:             loop.block "sum" () reduce (%{{.*}} : %n = %{{.*}} * 16 + %{{.*}}) {
// CHECK:         loop.for %{{.*}} = %n floordiv 16 to (%n + 15) floordiv 16 {
// CHECK:             loop.block "sum" () reduce (%{{.*}} : %n = %{{.*}} * 16 + %{{.*}}) where
// CHECK-NOT:     cold
loop.func @sum(%A: memref<?xf32>, %B: memref<f32>, %n: index)
    attributes {outputs = 1 : i64, sizes = [#te.map<"%0">, #te.map<"">], least = array<i64: 1>} {
  %z = arith.constant 0.0 : f32
  loop.store %z, %B[] : f32
  loop.for %o = 0 to (%n + 15) floordiv 16 {
    loop.for %i = 0 to 16 vectorized {
      loop.block "sum" () reduce (%v : %n = %o * 16 + %i) where (%n - %o * 16 - %i - 1) {
        %x = loop.load %A[%v] : f32
        %y = loop.load %B[] : f32
        %s = arith.addf %x, %y : f32
        loop.store %s, %B[] : f32
      }
    }
  }
}
