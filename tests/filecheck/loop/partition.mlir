// RUN: mlc-opt %s -p loop-partition | filecheck %s

// A serial loop is cut; the tail of the vectorized one gets the size that is left.
// CHECK-LABEL: loop.func @serial
// CHECK:         loop.for %[[O:.*]] = 0 to 4 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 12 vectorized {
// CHECK-NEXT:        loop.block "fill" (%{{.*}} : 56 = {{.*}}) {
// CHECK:         loop.for %[[T:.*]] = 4 to 5 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 8 vectorized {
// CHECK-NEXT:        loop.block "fill" (%{{.*}} : 56 = {{.*}}) {
// CHECK-NOT:     where
loop.func @serial(%Y: memref<56xf32>) attributes {outputs = 1 : i64} {
  loop.for %o = 0 to 5 {
    loop.for %i = 0 to 12 vectorized {
      loop.block "fill" (%v : 56 = %o * 12 + %i) where (55 - %o * 12 - %i) {
        %z = arith.constant 0.0 : f32
        loop.store %z, %Y[%v] : f32
      }
    }
  }
}

// Iterations that never run are dropped at every level of a split.
// CHECK-LABEL: loop.func @twice_split
// CHECK:         loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 16 vectorized {
// CHECK:         loop.for %{{.*}} = 1 to 2 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 3 vectorized {
// CHECK-NOT:     loop.for
// CHECK-NOT:     where
loop.func @twice_split(%Y: memref<67xf32>) attributes {outputs = 1 : i64} {
  loop.for %a = 0 to 2 {
    loop.for %b = 0 to 4 {
      loop.for %c = 0 to 16 vectorized {
        loop.block "fill" (%v : 67 = %a * 64 + %b * 16 + %c) where (66 - %a * 64 - %b * 16 - %c) {
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%v] : f32
        }
      }
    }
  }
}

// A parallel loop stays whole, and chooses inside.
// CHECK-LABEL: loop.func @parallel
// CHECK:         loop.for %[[P:.*]] = 0 to 5 parallel {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to -((%[[P]] + 1) floordiv 5) + 1 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 12 vectorized {
// CHECK:           loop.for %{{.*}} = 0 to (%[[P]] + 1) floordiv 5 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 8 vectorized {
// CHECK-NOT:     where
loop.func @parallel(%Y: memref<56xf32>) attributes {outputs = 1 : i64} {
  loop.for %o = 0 to 5 parallel {
    loop.for %i = 0 to 12 vectorized {
      loop.block "fill" (%v : 56 = %o * 12 + %i) where (55 - %o * 12 - %i) {
        %z = arith.constant 0.0 : f32
        loop.store %z, %Y[%v] : f32
      }
    }
  }
}

// So does a loop that was fused.
// CHECK-LABEL: loop.func @fused
// CHECK:         loop.for %[[P:.*]] = 0 to 6 parallel {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to -(((%[[P]] mod 2) + 1) floordiv 2) + 1 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 16 vectorized {
// CHECK:           loop.for %{{.*}} = 0 to ((%[[P]] mod 2) + 1) floordiv 2 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 5 vectorized {
// CHECK-NOT:     where
loop.func @fused(%Y: memref<3x21xf32>) attributes {outputs = 1 : i64} {
  loop.for %p = 0 to 6 parallel {
    loop.for %j = 0 to 16 vectorized {
      loop.block "fill" (%u : 3 = %p floordiv 2, %v : 21 = (%p mod 2) * 16 + %j) where (20 - (%p mod 2) * 16 - %j) {
        %z = arith.constant 0.0 : f32
        loop.store %z, %Y[%u, %v] : f32
      }
    }
  }
}

// Where further loops stand inside, the serial loop has fewer iterations in the last of the parallel one.
// CHECK-LABEL: loop.func @fewer
// CHECK:         loop.for %[[P:.*]] = 0 to 4 parallel {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to -(((%[[P]] mod 2) + 1) floordiv 2) * 3 + 8 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 6 {
// CHECK-NOT:     where
loop.func @fewer(%Y: memref<2x13x6xf32>) attributes {outputs = 1 : i64} {
  loop.for %p = 0 to 4 parallel {
    loop.for %i = 0 to 8 {
      loop.for %j = 0 to 6 {
        loop.block "fill" (%u : 2 = %p floordiv 2, %v : 13 = (%p mod 2) * 8 + %i, %w : 6 = %j) where (12 - (%p mod 2) * 8 - %i) {
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%u, %v, %w] : f32
        }
      }
    }
  }
}

// A partial tile stands behind the loop over whole ones, of which there is one body.
// CHECK-LABEL: loop.func @partial_tile
// CHECK:         loop.for %[[P:.*]] = 0 to 3 parallel {
// CHECK-NEXT:      loop.for %[[I:.*]] = 0 to -((%[[P]] + 1) floordiv 3) * 3 + 4 {
// CHECK-NEXT:        loop.for %[[J:.*]] = 0 to 6 {
// CHECK-NEXT:          loop.block "fill" (%{{.*}} : 58 = %[[P]] * 24 + %[[I]] * 6 + %[[J]]) {
// CHECK:           loop.for %{{.*}} = 0 to (%[[P]] + 1) floordiv 3 {
// CHECK-NEXT:        loop.for %[[I2:.*]] = 1 to 2 {
// CHECK-NEXT:          loop.for %[[J2:.*]] = 0 to 4 {
// CHECK-NEXT:            loop.block "fill" (%{{.*}} : 58 = %[[I2]] * 6 + %[[J2]] + %[[P]] * 24) {
// CHECK-NOT:       loop.block
loop.func @partial_tile(%Y: memref<58xf32>) attributes {outputs = 1 : i64} {
  loop.for %p = 0 to 3 parallel {
    loop.for %i = 0 to 4 {
      loop.for %j = 0 to 6 {
        loop.block "fill" (%v : 58 = %p * 24 + %i * 6 + %j) where (57 - %p * 24 - %i * 6 - %j, 9 - %p * 4 - %i) {
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%v] : f32
        }
      }
    }
  }
}

// Ops in front of the blocks with predicates, and behind them, are not copied.
// CHECK-LABEL: loop.func @part_of_a_body
// CHECK:         loop.for %[[P:.*]] = 0 to 5 parallel {
// CHECK-NEXT:      loop.block "first"
// CHECK:           loop.for %{{.*}} = 0 to -((%[[P]] + 1) floordiv 5) + 1 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 12 vectorized {
// CHECK:           loop.for %{{.*}} = 0 to (%[[P]] + 1) floordiv 5 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 8 vectorized {
// CHECK:           loop.block "last"
// CHECK-NOT:       loop.block "{{first|last}}"
loop.func @part_of_a_body(%X: memref<5xf32>, %Y: memref<56xf32>, %Z: memref<5xf32>) attributes {outputs = 3 : i64} {
  loop.for %o = 0 to 5 parallel {
    loop.block "first" (%u : 5 = %o) {
      %z = arith.constant 1.0 : f32
      loop.store %z, %X[%u] : f32
    }
    loop.for %i = 0 to 12 vectorized {
      loop.block "fill" (%v : 56 = %o * 12 + %i) where (55 - %o * 12 - %i) {
        %z = arith.constant 0.0 : f32
        loop.store %z, %Y[%v] : f32
      }
    }
    loop.block "last" (%u : 5 = %o) {
      %z = arith.constant 2.0 : f32
      loop.store %z, %Z[%u] : f32
    }
  }
}

// A predicate that the bounds prove goes; one that turns with two loops at once stays.
// CHECK-LABEL: loop.func @others
// CHECK:         loop.block "proved" (%{{.*}} : 8 = %{{.*}}) {
// CHECK:         loop.block "triangle" ({{.*}}) where (%[[I:.*]] - %[[J:.*]]) {
loop.func @others(%Y: memref<8xf32>, %Z: memref<8x8xf32>) attributes {outputs = 2 : i64} {
  loop.for %i = 0 to 8 {
    loop.block "proved" (%v : 8 = %i) where (7 - %i) {
      %z = arith.constant 0.0 : f32
      loop.store %z, %Y[%v] : f32
    }
    loop.for %j = 0 to 8 vectorized {
      loop.block "triangle" (%u : 8 = %i, %v : 8 = %j) where (%i - %j) {
        %z = arith.constant 0.0 : f32
        loop.store %z, %Z[%u, %v] : f32
      }
    }
  }
}
