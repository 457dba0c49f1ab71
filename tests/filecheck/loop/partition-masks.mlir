// RUN: mlc-opt %s -p loop-partition,loop-form-tiles | filecheck %s

// The edges of a padded row apart: the middle reads without a mask of the columns.
// CHECK-LABEL: loop.func @pad_row
// CHECK:         loop.for %{{.*}} = 0 to 1 {
// CHECK:         loop.for %{{.*}} = 1 to 33 {
// CHECK:         loop.for %{{.*}} = 33 to 34 {
loop.func @pad_row(%x: memref<32x16xf32>, %y: memref<34x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %w = 0 to 34 {
    loop.for %c = 0 to 16 vectorized {
      loop.block "pad" (%vw : 34 = %w, %vc : 16 = %c) {
        %z = arith.constant 0.0 : f32
        %v = loop.load %x[%vw - 1, %vc] mask (%vw - 1, 32 - %vw) else %z : f32
        loop.store %v, %y[%vw, %vc] : f32
      }
    }
  }
}
