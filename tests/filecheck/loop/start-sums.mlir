// RUN: mlc-opt %s -p loop-start-sums --split-input-file | filecheck %s

// The bias is where the sum starts; its load moves in front of the loops.
// CHECK-LABEL: loop.func @bias
// CHECK:         %[[V:.*]] = loop.load %b[d1] tile (d0 : 2, d1 : 16)
// CHECK-NEXT:    %[[B:.*]] = loop.broadcast %[[V]]
// CHECK-NEXT:    %[[S:.*]] = loop.for %k = 0 to 4 iter_args(%{{.*}} = %[[B]])
// CHECK-NOT:     arith.addi
// CHECK:         loop.store %[[S]], %y
loop.func @bias(%x: memref<2x16xi8>, %w: memref<4x16x4xi8>, %b: memref<16xi32>, %y: memref<2x16xi32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0 : i32
  %1 = loop.broadcast %0 : i32 to vector<2x16xi32>
  %2 = loop.for %k = 0 to 4 iter_args(%3 = %1) -> vector<2x16xi32> {
    %4 = loop.for %l = 0 to 1 iter_args(%5 = %3) -> vector<2x16xi32> {
      %6 = loop.load %x[d0, d2 + %k * 4] tile (d0 : 2, d1 : 16, d2 : 4) : vector<2x1x4xi8>
      %7 = loop.load %w[%k, d1, d2] tile (d0 : 2, d1 : 16, d2 : 4) : vector<1x16x4xi8>
      %8 = loop.contract %6 unsigned, %7, %5 : vector<2x1x4xi8>, vector<1x16x4xi8>, vector<2x16xi32>
      loop.yield %8 : vector<2x16xi32>
    }
    loop.yield %4 : vector<2x16xi32>
  }
  %9 = loop.load %b[d1] tile (d0 : 2, d1 : 16) : vector<1x16xi32>
  %10 = loop.broadcast %9 : vector<1x16xi32> to vector<2x16xi32>
  %11 = arith.addi %2, %10 : vector<2x16xi32>
  loop.store %11, %y[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xi32>
}

// -----

// What is added is written behind the loop: it cannot be read before.
// CHECK-LABEL: loop.func @written
// CHECK:         iter_args(%{{.*}} = %1)
// CHECK:         arith.addi
loop.func @written(%x: memref<2x16xi8>, %w: memref<4x16x4xi8>, %b: memref<2x16xi32>, %y: memref<2x16xi32>) attributes {outputs = 2 : i64} {
  %0 = arith.constant 0 : i32
  %1 = loop.broadcast %0 : i32 to vector<2x16xi32>
  %2 = loop.for %k = 0 to 4 iter_args(%3 = %1) -> vector<2x16xi32> {
    %6 = loop.load %x[d0, d2 + %k * 4] tile (d0 : 2, d1 : 16, d2 : 4) : vector<2x1x4xi8>
    %7 = loop.load %w[%k, d1, d2] tile (d0 : 2, d1 : 16, d2 : 4) : vector<1x16x4xi8>
    %8 = loop.contract %6 unsigned, %7, %3 : vector<2x1x4xi8>, vector<1x16x4xi8>, vector<2x16xi32>
    loop.yield %8 : vector<2x16xi32>
  }
  loop.store %1, %b[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xi32>
  %9 = loop.load %b[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xi32>
  %11 = arith.addi %2, %9 : vector<2x16xi32>
  loop.store %11, %y[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xi32>
}

// -----

// A sum that starts elsewhere, one that is read again, and a maximum keep the addition.
// CHECK-LABEL: loop.func @others
// CHECK-COUNT-3: arith.addi
loop.func @others(%x: memref<4xi32>, %b: memref<i32>, %y: memref<4xi32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0 : i32
  %1 = loop.load %b[] : i32
  %2 = loop.for %k = 0 to 4 iter_args(%3 = %0) -> i32 {
    %4 = loop.load %x[%k] : i32
    %5 = arith.maxsi %3, %4 : i32
    loop.yield %5 : i32
  }
  %6 = arith.addi %2, %1 : i32
  loop.store %6, %y[0] : i32
  %7 = loop.for %k = 0 to 4 iter_args(%8 = %1) -> i32 {
    loop.yield %8 : i32
  }
  %9 = arith.addi %7, %1 : i32
  loop.store %9, %y[1] : i32
  %10 = loop.for %k = 0 to 4 iter_args(%11 = %0) -> i32 {
    loop.yield %11 : i32
  }
  %12 = arith.addi %10, %1 : i32
  loop.store %12, %y[2] : i32
  loop.store %10, %y[3] : i32
}
