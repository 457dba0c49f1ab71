// RUN: mlc-opt %s -p loop-partition | filecheck %s
// RUN: mlc-opt %s -p loop-partition,loop-form-tiles | filecheck %s --check-prefix=TILES

// The last tiles of both axes are computed whole: the store to the output is predicated, and so is the load of %r, which
// has no room for them; the buffer between the blocks grows.
// CHECK-LABEL: loop.func @whole_tiles
// CHECK:         %t = loop.alloc "shared" : memref<16x12xf32>
// CHECK:         loop.block "t" (%{{.*}} : 16 = %{{.*}}, %{{.*}} : 12 = %{{.*}}) {
// CHECK:           loop.load %x[%{{.*}} floordiv 4, %{{.*}} floordiv 4] : f32
// CHECK:           loop.store %{{.*}}, %t[%{{.*}}, %{{.*}}] : f32
// CHECK:         loop.block "y" (%[[i:.*]] : 16 = %{{.*}}, %[[j:.*]] : 12 = %{{.*}}) {
// CHECK:           loop.load %t[%[[i]], %[[j]]] : f32
// CHECK:           loop.load %r[%[[i]], 0] mask (-%[[i]] + 12) else %{{.*}} : f32
// CHECK:           loop.store %{{.*}}, %y[%[[i]], %[[j]]] mask (-%[[i]] + 12, -%[[j]] + 9) : f32
// CHECK-NOT:     tail
// TILES-LABEL: loop.func @whole_tiles
// TILES:         loop.store %{{.*}}, %y[{{.*}}] mask ({{.*}}) tile (d0 : 4, d1 : 4) : vector<4x4xf32>
// TILES-NOT:     %y[
// TILES-LABEL: loop.func @division
loop.func @whole_tiles(%x: memref<4x3xf32>, %r: memref<13x1xf32>, %y: memref<13x10xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "shared" : memref<13x10xf32>
  loop.for %p = 0 to 4 parallel {
    loop.for %q = 0 to 3 {
      loop.for %i = 0 to 4 vectorized {
        loop.for %j = 0 to 4 vectorized {
          loop.block "t" (%vi : 13 = %p * 4 + %i, %vj : 10 = %q * 4 + %j) where (12 - %p * 4 - %i, 9 - %q * 4 - %j) {
            %a = loop.load %x[%vi floordiv 4, %vj floordiv 4] : f32
            loop.store %a, %t[%vi, %vj] : f32
          }
        } attributes {tail = 1 : i64}
      } attributes {tail = 1 : i64}
      loop.for %k = 0 to 4 vectorized {
        loop.for %l = 0 to 4 vectorized {
          loop.block "y" (%vk : 13 = %p * 4 + %k, %vl : 10 = %q * 4 + %l) where (12 - %p * 4 - %k, 9 - %q * 4 - %l) {
            %b = loop.load %t[%vk, %vl] : f32
            %c = loop.load %r[%vk, 0] : f32
            %d = arith.addf %b, %c : f32
            loop.store %d, %y[%vk, %vl] : f32
          }
        } attributes {tail = 1 : i64}
      } attributes {tail = 1 : i64}
    }
  }
}

// What may not be computed beyond its end is split instead: an integer division might trap.
// CHECK-LABEL: loop.func @division
// CHECK:         loop.for %{{.*}} = 0 to 3 {
// CHECK:         loop.for %{{.*}} = 3 to 4 {
// CHECK-NOT:     mask
loop.func @division(%x: memref<13xi32>, %y: memref<13xi32>) attributes {outputs = 1 : i64} {
  loop.for %p = 0 to 4 {
    loop.for %i = 0 to 4 vectorized {
      loop.block "y" (%v : 13 = %p * 4 + %i) where (12 - %p * 4 - %i) {
        %one = arith.constant 1 : i32
        %a = loop.load %x[%v] : i32
        %b = arith.divsi %one, %a : i32
        loop.store %b, %y[%v] : i32
      }
    } attributes {tail = 1 : i64}
  }
}

// A sum would count the points beyond the end.
// CHECK-LABEL: loop.func @sum
// CHECK:         loop.for %{{.*}} = 0 to 3 {
// CHECK:         loop.for %{{.*}} = 3 to 4 {
// CHECK-NOT:     mask
loop.func @sum(%x: memref<13xf32>, %y: memref<f32>) attributes {outputs = 1 : i64} {
  loop.for %p = 0 to 4 {
    loop.for %i = 0 to 4 {
      loop.block "y" () reduce (%v : 13 = %p * 4 + %i) where (12 - %p * 4 - %i) {
        %a = loop.load %x[%v] : f32
        %s = loop.load %y[] : f32
        %b = arith.addf %s, %a : f32
        loop.store %b, %y[] : f32
      }
    } attributes {tail = 1 : i64}
  }
}
