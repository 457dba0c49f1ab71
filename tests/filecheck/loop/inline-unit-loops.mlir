// RUN: mlc-opt %s -p loop-inline-unit-loops | filecheck %s

// A loop that runs once is its body, with its index as a constant; the lanes of a tile stay a loop.
// CHECK-LABEL: loop.func @copy
// CHECK-NEXT:    loop.for %[[i:.*]] = 0 to 4 {
// CHECK-NEXT:      loop.for %[[c:.*]] = 0 to 1 vectorized {
// CHECK-NEXT:        loop.block "copy" (%{{.*}} : 8 = %[[i]] + 3, %{{.*}} : 1 = %[[c]]) {
loop.func @copy(%x: memref<8x1xf32>, %y: memref<8x1xf32>) attributes {outputs = 1 : i64} {
  loop.for %n = 3 to 4 {
    loop.for %i = 0 to 4 {
      loop.for %c = 0 to 1 vectorized {
        loop.block "copy" (%vi : 8 = %n + %i, %vc : 1 = %c) {
          %v = loop.load %x[%vi, %vc] : f32
          loop.store %v, %y[%vi, %vc] : f32
        }
      }
    }
  }
}
