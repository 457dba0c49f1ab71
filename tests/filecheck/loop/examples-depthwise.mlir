// RUN: mlc-opt %s -p loop-partition,loop-form-tiles,loop-compact-buffers,loop-promote-tiles | filecheck %s

// A depthwise convolution along rows: the accumulator is carried through the taps, no element is gathered, and the
// ragged last tile has a shape of its own.
// CHECK-LABEL: loop.func @depthwise
// CHECK:         loop.for %[[O:.*]] = 0 to 3 {
// CHECK-NEXT:      %[[R:.*]] = loop.for %[[K:.*]] = 0 to 3 unrolled iter_args(%[[A:.*]] = %{{.*}}) -> vector<8x16xf32> {
// CHECK-NEXT:        %[[X:.*]] = loop.load %X[d0 + %[[O]] * 8 + %[[K]], d1] tile (d0 : 8, d1 : 16) : vector<8x16xf32>
// CHECK-NEXT:        %[[F:.*]] = loop.load %F[%[[K]], d1] tile (d0 : 8, d1 : 16) : vector<1x16xf32>
// CHECK-NEXT:        %[[N:.*]] = loop.fma %[[X]], %[[F]], %[[A]]
// CHECK-NEXT:        loop.yield %[[N]]
// CHECK:           loop.store %[[R]], %Y
// CHECK:         loop.for %{{.*}} = 3 to 4 {
// CHECK-NEXT:      loop.for {{.*}} -> vector<4x16xf32> {
// CHECK-NOT:     mask
loop.func @depthwise(%X: memref<30x16xf32>, %F: memref<3x16xf32>, %Y: memref<28x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %o = 0 to 4 {
    loop.for %i = 0 to 8 vectorized {
      loop.for %b = 0 to 16 vectorized {
        loop.block "init" (%w : 28 = %o * 8 + %i, %c : 16 = %b) where (27 - %o * 8 - %i) {
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%w, %c] : f32
        }
      }
    }
    loop.for %k = 0 to 3 unrolled {
      loop.for %i = 0 to 8 vectorized {
        loop.for %b = 0 to 16 vectorized {
          loop.block "depthwise" (%w : 28 = %o * 8 + %i, %c : 16 = %b) reduce (%vk : 3 = %k) where (27 - %o * 8 - %i) {
            %x = loop.load %X[%w + %vk, %c] : f32
            %f = loop.load %F[%vk, %c] : f32
            %a = loop.load %Y[%w, %c] : f32
            %n = loop.fma %x, %f, %a : f32, f32, f32
            loop.store %n, %Y[%w, %c] : f32
          }
        }
      }
    }
  }
}
