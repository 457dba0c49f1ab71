// RUN: mlc-opt %s -p loop-promote-tiles | filecheck %s

// The accumulator is carried, the store of the start is forwarded to it, and the local buffer goes.
// CHECK-LABEL: loop.func @carry
// CHECK-NOT:     loop.alloc
// CHECK:         %[[Z:.*]] = loop.broadcast %{{.*}} : f32 to vector<4x16xf32>
// CHECK-NEXT:    %[[R:.*]] = loop.for %[[K:.*]] = 0 to 8 iter_args(%[[C:.*]] = %[[Z]]) -> vector<4x16xf32> {
// CHECK:           %[[N:.*]] = loop.fma %{{.*}}, %{{.*}}, %[[C]]
// CHECK-NEXT:      loop.yield %[[N]]
// CHECK:         loop.store %[[R]], %C
loop.func @carry(%A: memref<4x8xf32>, %B: memref<8x16xf32>, %C: memref<4x16xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "local" : memref<4x16xf32>
  %0 = arith.constant 0.0 : f32
  %z = loop.broadcast %0 : f32 to vector<4x16xf32>
  loop.store %z, %t[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  loop.for %k = 0 to 8 {
    %a = loop.load %A[d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
    %b = loop.load %B[%k, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
    %c = loop.load %t[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
    %n = loop.fma %a, %b, %c : vector<4x1xf32>, vector<1x16xf32>, vector<4x16xf32>
    loop.store %n, %t[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  }
  %r = loop.load %t[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  loop.store %r, %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
}

// A reduction in the loop waits until it is over: lanes accumulate apart.
// CHECK-LABEL: loop.func @sink
// CHECK:         %[[L:.*]] = loop.for %{{.*}} iter_args(%[[A:.*]] = %{{.*}}) -> vector<16xf32> {
// CHECK-NEXT:      %[[X:.*]] = loop.load %X
// CHECK-NEXT:      %[[N:.*]] = arith.addf %[[A]], %[[X]] : vector<16xf32>
// CHECK-NEXT:      loop.yield %[[N]]
// CHECK:         %[[R:.*]] = loop.reduce sum %[[L]] axes [0]
// CHECK-NEXT:    %[[S:.*]] = arith.addf %{{.*}}, %[[R]] : vector<1xf32>
// CHECK-NEXT:    loop.store %[[S]], %S[0]
loop.func @sink(%X: memref<8x16xf32>, %S: memref<1xf32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 8 {
    %x = loop.load %X[%k, d0] tile (d0 : 16) : vector<16xf32>
    %r = loop.reduce sum %x axes [0] : vector<16xf32> to vector<1xf32>
    %s = loop.load %S[0] tile (d0 : 16) : vector<1xf32>
    %n = arith.addf %s, %r : vector<1xf32>
    loop.store %n, %S[0] tile (d0 : 16) : vector<1xf32>
  }
}

// Loops in a loop carry one sum: the inner ones begin with that of the outer one, where it holds nothing but the sum.
// CHECK-LABEL: loop.func @sink_nested
// CHECK:         %[[L:.*]] = loop.for %{{.*}} iter_args(%[[A:.*]] = %{{.*}}) -> vector<16xf32> {
// CHECK-NEXT:      %[[I:.*]] = loop.for %{{.*}} iter_args(%[[B:.*]] = %[[A]]) -> vector<16xf32> {
// CHECK-NEXT:        %[[X:.*]] = loop.load %X
// CHECK-NEXT:        %[[N:.*]] = arith.addf %[[B]], %[[X]] : vector<16xf32>
// CHECK-NEXT:        loop.yield %[[N]]
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.yield %[[I]]
// CHECK:         loop.reduce sum %[[L]] axes [0]
loop.func @sink_nested(%X: memref<8x4x16xf32>, %S: memref<1xf32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 8 {
    loop.for %l = 0 to 4 {
      %x = loop.load %X[%k, %l, d0] tile (d0 : 16) : vector<16xf32>
      %r = loop.reduce sum %x axes [0] : vector<16xf32> to vector<1xf32>
      %s = loop.load %S[0] tile (d0 : 16) : vector<1xf32>
      %n = arith.addf %s, %r : vector<1xf32>
      loop.store %n, %S[0] tile (d0 : 16) : vector<1xf32>
    }
  }
}

// A maximum of sums is no sum: each inner loop begins with its own neutral element.
// CHECK-LABEL: loop.func @largest_sum
// CHECK:         loop.for %{{.*}} = 0 to 8
// CHECK:           %[[I:.*]] = loop.for %{{.*}} = 0 to 4 iter_args(%[[B:.*]] = %[[Z:.*]]) -> vector<16xf32> {
// CHECK:             arith.addf %[[B]]
// CHECK:           arith.maximumf
loop.func @largest_sum(%X: memref<8x4x16xf32>, %S: memref<1xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %z = loop.broadcast %0 : f32 to vector<16xf32>
  loop.for %k = 0 to 8 {
    %t = loop.for %l = 0 to 4 iter_args(%a = %z) -> vector<16xf32> {
      %x = loop.load %X[%k, %l, d0] tile (d0 : 16) : vector<16xf32>
      %n = arith.addf %a, %x : vector<16xf32>
      loop.yield %n : vector<16xf32>
    }
    %r = loop.reduce max %t axes [0] : vector<16xf32> to vector<1xf32>
    %s = loop.load %S[0] tile (d0 : 16) : vector<1xf32>
    %m = arith.maximumf %s, %r : vector<1xf32>
    loop.store %m, %S[0] tile (d0 : 16) : vector<1xf32>
  }
}

// What does not change in a loop stands in front of it; what the loop writes is read again.
// CHECK-LABEL: loop.func @invariant
// CHECK:         %[[V:.*]] = loop.load %V[] : f32
// CHECK-NEXT:    %[[R:.*]] = math.rsqrt %[[V]] : f32
// CHECK-NEXT:    loop.for
// CHECK-NEXT:      loop.load %Y[0] : f32
// CHECK-NEXT:      arith.mulf %{{.*}}, %[[R]]
loop.func @invariant(%V: memref<f32>, %Y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    %v = loop.load %V[] : f32
    %r = math.rsqrt %v : f32
    %x = loop.load %Y[0] : f32
    %y = arith.mulf %x, %r : f32
    loop.store %y, %Y[%i] : f32
  }
}

// A loop that may not run at all keeps its stores.
// CHECK-LABEL: loop.func @may_not_run
// CHECK:           loop.for %{{.*}} = 0 to %[[I:.*]] floordiv 7 {
// CHECK-NEXT:        loop.load %C[%[[I]] - 7]
// CHECK-NEXT:        arith.addf
// CHECK-NEXT:        loop.store %{{.*}}, %C[%[[I]] - 7]
loop.func @may_not_run(%C: memref<1xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %g = 0 to %i floordiv 7 {
      %c = loop.load %C[%i - 7] : f32
      %n = arith.addf %c, %c : f32
      loop.store %n, %C[%i - 7] : f32
    }
  }
}

// A tile that is stored once is read in slices, and the local buffer goes; the last axis is read from the buffer.
// CHECK-LABEL: loop.func @slices
// CHECK-NOT:     loop.alloc
// CHECK:         %[[X:.*]] = loop.load %X
// CHECK-NEXT:    %[[A:.*]] = loop.slice %[[X]] axis 1 at 2 : vector<2x3x16xf32> to vector<2x1x16xf32>
// CHECK-NEXT:    %[[B:.*]] = loop.slice %[[X]] axis 1 at 0 : vector<2x3x16xf32> to vector<2x1x16xf32>
// CHECK-NEXT:    arith.subf %[[A]], %[[B]]
loop.func @slices(%X: memref<2x3x16xf32>, %Y: memref<2x16xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "local" : memref<2x16x8xf32>
  %x = loop.load %X[d0, d1, d2] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x3x16xf32>
  loop.store %x, %t[d0, d2, d1 * 2 + 1] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x3x16xf32>
  %a = loop.load %t[d0, d2, 5] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x1x16xf32>
  %b = loop.load %t[d0, d2, 1] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x1x16xf32>
  %c = arith.subf %a, %b : vector<2x1x16xf32>
  loop.store %c, %Y[d0, d2] tile (d0 : 2, d1 : 1, d2 : 16) : vector<2x1x16xf32>
}

// Between the places, behind them, across the last axis, and behind another store, the buffer is read.
// CHECK-LABEL: loop.func @no_slices
// CHECK-NOT:     loop.slice
// CHECK:         loop.store %{{.*}}, %Z
loop.func @no_slices(%X: memref<2x3x16xf32>, %Y: memref<4x2x16xf32>, %Z: memref<2x3x1xf32>) attributes {outputs = 2 : i64} {
  %t = loop.alloc "local" : memref<2x16x8xf32>
  %x = loop.load %X[d0, d1, d2] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x3x16xf32>
  loop.store %x, %t[d0, d2, d1 * 2 + 1] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x3x16xf32>
  %a = loop.load %t[d0, d2, 4] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x1x16xf32>
  %b = loop.load %t[d0, d2, 7] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x1x16xf32>
  %c = loop.load %t[d0, 3, d1 * 2 + 1] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x3x1xf32>
  loop.store %a, %Y[0, d0, d2] tile (d0 : 2, d1 : 1, d2 : 16) : vector<2x1x16xf32>
  loop.store %b, %t[d0, d2, 3] tile (d0 : 2, d1 : 1, d2 : 16) : vector<2x1x16xf32>
  %d = loop.load %t[d0, d2, 1] tile (d0 : 2, d1 : 3, d2 : 16) : vector<2x1x16xf32>
  loop.store %d, %Y[1, d0, d2] tile (d0 : 2, d1 : 1, d2 : 16) : vector<2x1x16xf32>
  loop.store %c, %Z[d0, d1, 0] tile (d0 : 2, d1 : 3, d2 : 1) : vector<2x3x1xf32>
}

// What a function in the loop writes is loaded in each iteration.
// CHECK-LABEL: loop.func @called
// CHECK:         loop.for
// CHECK-NEXT:      loop.call registered "my.next"
// CHECK-NEXT:      loop.load %t[0]
loop.func @called(%x: memref<1xf32>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "local" : memref<1xf32>
  loop.for %i = 0 to 4 {
    loop.call registered "my.next" (%x, %t) outputs 1 : memref<1xf32>, memref<1xf32>
    %a = loop.load %t[0] : f32
    loop.store %a, %y[%i] : f32
  }
}
