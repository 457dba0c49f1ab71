// RUN: mlc-opt %s -p loop-partition | filecheck %s

// Taps that read nothing but the zeros of a padded copy are left out: for each row, and for tiles of columns as a whole.
// CHECK-LABEL: loop.func @taps
// CHECK:         loop.for %o = 0 to %h {
// CHECK-NEXT:      loop.for %t = 0 to %n {
// CHECK-NEXT:        loop.for %k = -((%o + {{.*}}) floordiv {{.*}}) + 1 to {{.*}} + 1 {
// CHECK-NEXT:          loop.for %l = -((%t {{.*}}) floordiv {{.*}}) + 1 to {{.*}} + 1 {
// CHECK-NEXT:            loop.for %i = 0 to 4 vectorized {
// CHECK-NOT:     skip
loop.func @taps(%x: memref<?x?xf32>, %w: memref<3x3xf32>, %y: memref<?x?xf32>, %h: index, %n: index)
    attributes {outputs = 1 : i64, sizes = [#te.map<"%0, %1 * 4">, #te.map<"3, 3">, #te.map<"%0, %1 * 4">], least = array<i64: 1, 1>} {
  %p = loop.alloc "global" (%h + 24, %n * 4 + 24) : memref<?x?xf32>
  loop.for %r = 0 to %h + 24 {
    loop.for %c = 0 to %n * 4 + 24 {
      loop.block "pad" (%vr : %h + 24 = %r, %vc : %n * 4 + 24 = %c) {
        %zero = arith.constant 0.0 : f32
        %0 = loop.load %x[%vr - 12, %vc - 12] mask (%vr - 12, %h - %vr + 11, %vc - 12, %n * 4 - %vc + 11) else %zero : f32
        loop.store %0, %p[%vr, %vc] : f32
      }
    }
  }
  loop.for %o = 0 to %h {
    loop.for %t = 0 to %n {
      loop.for %k = 0 to 3 {
        loop.for %l = 0 to 3 {
          loop.for %i = 0 to 4 vectorized {
            loop.block "sum" (%vo : %h = %o, %vw : %n * 4 = %t * 4 + %i) reduce (%vk : 3 = %k, %vl : 3 = %l) {
              %0 = loop.load %p[%vo + %vk * 12, %vw + %vl * 12] : f32
              %1 = loop.load %w[%vk, %vl] : f32
              %2 = loop.load %y[%vo, %vw] : f32
              %3 = loop.fma %0, %1, %2 : f32, f32, f32
              loop.store %3, %y[%vo, %vw] : f32
            }
          }
        } attributes {skip = 1 : i64}
      } attributes {skip = 1 : i64}
    }
  }
}
