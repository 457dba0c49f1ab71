// RUN: mlc-opt %s -p loop-partition | filecheck %s

// Taps of a window that lie beyond the picture are left out: the bounds count the taps for which a predicate fails.
// CHECK-LABEL: loop.func @rows
// CHECK:         loop.for %i = 0 to 8 {
// CHECK-NEXT:      loop.for %k = -((%i + 3) floordiv 8) + 1 to (-%i + 2) floordiv 8 + 3 {
// CHECK:             loop.load %x[%vi + %vk * 5 - 5, %vc] : f32
// CHECK-NOT:     mask
loop.func @rows(%x: memref<8x6xf32>, %w: memref<6x3xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.for %c = 0 to 6 {
        loop.block "sum" (%vi : 8 = %i) reduce (%vk : 3 = %k, %vc : 6 = %c) {
          %0 = loop.load %x[%vi + %vk * 5 - 5, %vc] mask (%vi + %vk * 5 - 5, -%vi - %vk * 5 + 12) else %zero : f32
          %1 = loop.load %w[%vc, %vk] : f32
          %2 = loop.load %y[%vi] : f32
          %3 = loop.fma %0, %1, %2 : f32, f32, f32
          loop.store %3, %y[%vi] : f32
        }
      }
    } attributes {clip = 1 : i64}
  }
}

// Where the predicate depends on a loop inside, that loop begins and ends with it, once for each tap.
// CHECK-LABEL: loop.func @columns
// CHECK:         loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT:      loop.for %{{.*}} = 1 to 2 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 6 {
// CHECK-NEXT:          loop.for %{{.*}} = 1 to 4 vectorized {
// CHECK:           loop.for %{{.*}} = 2 to 3 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 6 {
// CHECK-NEXT:          loop.for %{{.*}} = 0 to 4 vectorized {
// CHECK:         loop.for %{{.*}} = 1 to 2 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 3 {
// CHECK:         loop.for %{{.*}} = 2 to 3 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 1 {
// CHECK:           loop.for %{{.*}} = 1 to 2 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 6 {
// CHECK-NEXT:          loop.for %{{.*}} = 0 to 3 vectorized {
// CHECK-NOT:     {{mask|where}}
loop.func @columns(%x: memref<12x6xf32>, %w: memref<6x3x16xf32>, %y: memref<12x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 3 {
    loop.for %o = 0 to 3 {
      loop.for %c = 0 to 6 {
        loop.for %i = 0 to 4 vectorized {
          loop.for %l = 0 to 16 vectorized {
            loop.block "sum" (%vi : 12 = %o * 4 + %i, %vl : 16 = %l) reduce (%vk : 3 = %k, %vc : 6 = %c) {
              %zero = arith.constant 0.0 : f32
              %0 = loop.load %x[%vi + %vk * 5 - 5, %vc] mask (%vi + %vk * 5 - 5, -%vi - %vk * 5 + 16) else %zero : f32
              %1 = loop.load %w[%vc, %vk, %vl] : f32
              %2 = loop.load %y[%vi, %vl] : f32
              %3 = loop.fma %0, %1, %2 : f32, f32, f32
              loop.store %3, %y[%vi, %vl] : f32
            }
          }
        }
      }
    }
  } attributes {clip = 1 : i64}
}

// What is added beyond the picture is no zero: it is read as before.
// CHECK-LABEL: loop.func @ones
// CHECK:         loop.load %x[%vi + %vk * 5 - 5, %vc] mask (%vi + %vk * 5 - 5, -%vi - %vk * 5 + 12) else %one : f32
loop.func @ones(%x: memref<8x6xf32>, %w: memref<6x3xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.for %c = 0 to 6 {
        loop.block "sum" (%vi : 8 = %i) reduce (%vk : 3 = %k, %vc : 6 = %c) {
          %0 = loop.load %x[%vi + %vk * 5 - 5, %vc] mask (%vi + %vk * 5 - 5, -%vi - %vk * 5 + 12) else %one : f32
          %1 = loop.load %w[%vc, %vk] : f32
          %2 = loop.load %y[%vi] : f32
          %3 = loop.fma %0, %1, %2 : f32, f32, f32
          loop.store %3, %y[%vi] : f32
        }
      }
    } attributes {clip = 1 : i64}
  }
}
