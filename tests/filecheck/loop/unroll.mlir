// RUN: mlc-opt %s -p loop-unroll --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'loop-unroll{operations=10}' --split-input-file | filecheck %s --check-prefix=ONE
// RUN: not mlc-opt %s -p 'loop-unroll{operations=0}' 2>&1 | filecheck %s --check-prefix=WRONG

// WRONG: error: pass 'loop-unroll': expected vector-bits, registers and operations to be positive

// Three steps of 10 multiplications; the 2 steps that are left of 518 follow.
// CHECK-LABEL: loop.func @product
// CHECK:         %[[Z:.*]] = loop.broadcast
// CHECK-NEXT:    %[[S:.*]] = loop.for %k = 0 to 172 iter_args(%[[A:.*]] = %[[Z]]) -> vector<5x32xf32> {
// CHECK-NEXT:      %[[T:.*]] = loop.for %k_i = 0 to 3 unrolled iter_args(%[[B:.*]] = %[[A]]) -> vector<5x32xf32> {
// CHECK-NEXT:        %[[X:.*]] = loop.load %x[d0, %k * 3 + %k_i]
// CHECK-NEXT:        %[[W:.*]] = loop.load %w[%k * 3 + %k_i, d1]
// CHECK-NEXT:        %[[F:.*]] = loop.fma %[[X]], %[[W]], %[[B]]
// CHECK-NEXT:        loop.yield %[[F]]
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.yield %[[T]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[R:.*]] = loop.for %k{{.*}} = 516 to 518 unrolled iter_args(%{{.*}} = %[[S]]) -> vector<5x32xf32> {
// CHECK:           loop.load %x[d0, %{{k.*}}]
// CHECK:         loop.store %[[R]], %y
// ONE-LABEL:   loop.func @product
// ONE-NOT:     unrolled
loop.func @product(%x: memref<5x518xf32>, %w: memref<518x32xf32>, %y: memref<5x32xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %1 = loop.broadcast %0 : f32 to vector<5x32xf32>
  %2 = loop.for %k = 0 to 518 iter_args(%3 = %1) -> vector<5x32xf32> {
    %4 = loop.load %x[d0, %k] tile (d0 : 5, d1 : 32) : vector<5x1xf32>
    %5 = loop.load %w[%k, d1] tile (d0 : 5, d1 : 32) : vector<1x32xf32>
    %6 = loop.fma %4, %5, %3 : vector<5x1xf32>, vector<1x32xf32>, vector<5x32xf32>
    loop.yield %6 : vector<5x32xf32>
  }
  loop.store %2, %y[d0, d1] tile (d0 : 5, d1 : 32) : vector<5x32xf32>
}

// -----

// A divisor of the extent that is near: three steps leave no rest. A short loop is unrolled whole.
// CHECK-LABEL: loop.func @divisors
// CHECK:         loop.for %k = 0 to 9 iter_args
// CHECK-NEXT:      loop.for %k_i = 0 to 3 unrolled iter_args
// CHECK:         loop.for %l = 0 to 7 unrolled iter_args
// CHECK-NOT:     loop.for
// ONE-LABEL:   loop.func @divisors
// ONE-NOT:     unrolled
loop.func @divisors(%x: memref<5x27xf32>, %w: memref<27x32xf32>, %y: memref<5x32xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %1 = loop.broadcast %0 : f32 to vector<5x32xf32>
  %2 = loop.for %k = 0 to 27 iter_args(%3 = %1) -> vector<5x32xf32> {
    %4 = loop.load %x[d0, %k] tile (d0 : 5, d1 : 32) : vector<5x1xf32>
    %5 = loop.load %w[%k, d1] tile (d0 : 5, d1 : 32) : vector<1x32xf32>
    %6 = loop.fma %4, %5, %3 : vector<5x1xf32>, vector<1x32xf32>, vector<5x32xf32>
    loop.yield %6 : vector<5x32xf32>
  }
  %7 = loop.for %l = 0 to 7 iter_args(%8 = %2) -> vector<5x32xf32> {
    %9 = loop.load %x[d0, %l] tile (d0 : 5, d1 : 32) : vector<5x1xf32>
    %10 = loop.load %w[%l, d1] tile (d0 : 5, d1 : 32) : vector<1x32xf32>
    %11 = loop.fma %9, %10, %8 : vector<5x1xf32>, vector<1x32xf32>, vector<5x32xf32>
    loop.yield %11 : vector<5x32xf32>
  }
  loop.store %7, %y[d0, d1] tile (d0 : 5, d1 : 32) : vector<5x32xf32>
}

// -----

// The extent is known in a call: what is left is a loop of its own.
// CHECK-LABEL: loop.func @open
// CHECK:         %[[S:.*]] = loop.for %k = 0 to %n floordiv 3 iter_args
// CHECK-NEXT:      loop.for %k_i = 0 to 3 unrolled iter_args
// CHECK:         loop.for %k{{.*}} = (%n floordiv 3) * 3 to %n iter_args(%{{.*}} = %[[S]])
// CHECK-NOT:     unrolled
loop.func @open(%x: memref<5x?xf32>, %w: memref<?x32xf32>, %y: memref<5x32xf32>, %n: index) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %1 = loop.broadcast %0 : f32 to vector<5x32xf32>
  %2 = loop.for %k = 0 to %n iter_args(%3 = %1) -> vector<5x32xf32> {
    %4 = loop.load %x[d0, %k] tile (d0 : 5, d1 : 32) : vector<5x1xf32>
    %5 = loop.load %w[%k, d1] tile (d0 : 5, d1 : 32) : vector<1x32xf32>
    %6 = loop.fma %4, %5, %3 : vector<5x1xf32>, vector<1x32xf32>, vector<5x32xf32>
    loop.yield %6 : vector<5x32xf32>
  }
  loop.store %2, %y[d0, d1] tile (d0 : 5, d1 : 32) : vector<5x32xf32>
}

// -----

// Loops that stay: a sum without products, steps that take long, and sums that fill all 32 registers with the operands.
// CHECK-LABEL: loop.func @kept
// CHECK:         loop.for
// CHECK-NOT:     unrolled
loop.func @kept(%x: memref<14x512xf32>, %w: memref<512x32xf32>, %y: memref<14x32xf32>, %u: memref<32xf32>, %v: memref<32xf32>) attributes {outputs = 3 : i64} {
  %0 = arith.constant 0.0 : f32
  %1 = loop.broadcast %0 : f32 to vector<32xf32>
  %2 = loop.for %k = 0 to 512 iter_args(%3 = %1) -> vector<32xf32> {
    %4 = loop.load %w[%k, d0] tile (d0 : 32) : vector<32xf32>
    %5 = arith.addf %3, %4 : vector<32xf32>
    loop.yield %5 : vector<32xf32>
  }
  loop.store %2, %u[d0] tile (d0 : 32) : vector<32xf32>
  %6 = loop.for %k = 0 to 512 iter_args(%7 = %1) -> vector<32xf32> {
    %8 = loop.load %w[%k, d0] tile (d0 : 32) : vector<32xf32>
    %9 = math.exp %8 : vector<32xf32>
    %10 = loop.fma %9, %9, %7 : vector<32xf32>, vector<32xf32>, vector<32xf32>
    loop.yield %10 : vector<32xf32>
  }
  loop.store %6, %v[d0] tile (d0 : 32) : vector<32xf32>
  %11 = loop.broadcast %0 : f32 to vector<14x32xf32>
  %12 = loop.for %k = 0 to 512 iter_args(%13 = %11) -> vector<14x32xf32> {
    %14 = loop.load %x[d0, %k] tile (d0 : 14, d1 : 32) : vector<14x1xf32>
    %15 = loop.load %w[%k, d1] tile (d0 : 14, d1 : 32) : vector<1x32xf32>
    %16 = loop.load %w[%k, d1] tile (d0 : 14, d1 : 32) : vector<1x32xf32>
    %17 = arith.addf %15, %16 : vector<1x32xf32>
    %18 = loop.fma %14, %17, %13 : vector<14x1xf32>, vector<1x32xf32>, vector<14x32xf32>
    loop.yield %18 : vector<14x32xf32>
  }
  loop.store %12, %y[d0, d1] tile (d0 : 14, d1 : 32) : vector<14x32xf32>
}
