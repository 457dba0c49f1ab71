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

// Lanes of a vector in the loop: the tiles in which some lanes are padding stand apart, and the rest of the row.
// CHECK-LABEL: loop.func @pad_vectors
// CHECK:         loop.for %{{.*}} = 0 to 1 {
// CHECK:         loop.for %{{.*}} = 1 to 4 {
// CHECK:         loop.for %{{.*}} = 4 to 5 {
loop.func @pad_vectors(%x: memref<36xf32>, %y: memref<40xf32>) attributes {outputs = 1 : i64} {
  loop.for %o = 0 to 5 {
    loop.for %i = 0 to 8 vectorized {
      loop.block "pad" (%v : 40 = %o * 8 + %i) {
        %z = arith.constant 0.0 : f32
        %r = loop.load %x[%v - 2] mask (%v - 2, 37 - %v) else %z : f32
        loop.store %r, %y[%v] : f32
      }
    }
  }
}

// Two blocks, whole tiles and a rest, of which the mask is a matter of the loop around both: the parts of a concatenation.
// CHECK-LABEL: loop.func @parts
// CHECK:         loop.for %{{.*}} = 0 to 3 {
// CHECK:         loop.for %{{.*}} = 3 to 5 {
loop.func @parts(%x: memref<3x20xf32>, %y: memref<5x20xf32>) attributes {outputs = 1 : i64} {
  loop.for %c = 0 to 5 {
    loop.for %i = 0 to 16 vectorized {
      loop.block "a" (%vc : 5 = %c, %v : 20 = %i) {
        %z = arith.constant 0.0 : f32
        %r = loop.load %x[%vc, %v] mask (2 - %vc) else %z : f32
        loop.store %r, %y[%vc, %v] : f32
      }
    }
    loop.for %j = 0 to 4 vectorized {
      loop.block "b" (%vc : 5 = %c, %v : 20 = %j + 16) {
        %z = arith.constant 0.0 : f32
        %r = loop.load %x[%vc, %v] mask (2 - %vc) else %z : f32
        loop.store %r, %y[%vc, %v] : f32
      }
    }
  }
}

// A parallel loop stays whole: two versions of its body, of which one runs.
// CHECK-LABEL: loop.func @parallel_parts
// CHECK:         loop.for %[[C:.*]] = 0 to 5 parallel {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to -((%[[C]] + 2) floordiv 5) + 1 {
// CHECK:             loop.load %x
// CHECK-NOT:         mask
// CHECK:           loop.for %{{.*}} = 0 to (%[[C]] + 2) floordiv 5 {
// CHECK:             loop.load %w
loop.func @parallel_parts(%x: memref<3x16xf32>, %w: memref<2x16xf32>, %y: memref<5x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %c = 0 to 5 parallel {
    loop.for %i = 0 to 16 vectorized {
      loop.block "a" (%vc : 5 = %c, %v : 16 = %i) {
        %z = arith.constant 0.0 : f32
        %q = loop.load %w[%vc - 3, %v] mask (%vc - 3) else %z : f32
        %r = loop.load %x[%vc, %v] mask (2 - %vc) else %q : f32
        loop.store %r, %y[%vc, %v] : f32
      }
    }
  }
}

// A loop of symbolic extent has two versions of its body: one without masks, where all of them hold for all lanes.
// CHECK-LABEL: loop.func @edges
// CHECK:         loop.for %o = 0 to %n {
// CHECK-NEXT:      loop.for %main = 0 to ({{.*}}) floordiv 2 {
// CHECK:               loop.load %x[d0 * 2 + %o * 32 - 1] tile (d0 : 16) : vector<16xf32>
// CHECK:           loop.for %ragged = 0 to -(({{.*}}) floordiv 2) + 1 {
// CHECK:               loop.load %x[d0 * 2 + %o * 32 - 1] mask (d0 * 2 + %o * 32 - 1, {{.*}}) else %{{.*}} tile (d0 : 16)
loop.func @edges(%x: memref<?xf32>, %y: memref<?xf32>, %n: index, %m: index)
    attributes {outputs = 1 : i64, sizes = [#te.map<"%1">, #te.map<"%0 * 16">], least = array<i64: 1, 1>} {
  loop.for %o = 0 to %n {
    loop.for %i = 0 to 16 vectorized {
      loop.block "move" (%v : %n * 16 = %o * 16 + %i) {
        %zero = arith.constant 0.0 : f32
        %0 = loop.load %x[%v * 2 - 1] mask (%v * 2 - 1, %m - %v * 2) else %zero : f32
        loop.store %0, %y[%v] : f32
      }
    }
  }
}
