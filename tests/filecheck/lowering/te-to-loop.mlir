// RUN: mlc-opt %s --pass-pipeline=convert-te-to-loop | filecheck %s

// The loops have the names of the axes; a sum of products is a fused multiply-add.
// CHECK-LABEL: loop.func @matmul(%a: memref<4x6xf32>, %b: memref<6x5xf32>, %c: memref<4x5xf32>)
// CHECK-SAME:      attributes {outputs = 1 : i64, my.note = 2 : i64} {
// CHECK-NEXT:    loop.for %i = 0 to 4 {
// CHECK-NEXT:      loop.for %j = 0 to 5 {
// CHECK-NEXT:        loop.for %k = 0 to 6 {
// CHECK-NEXT:          loop.block "matmul" (%vi : 4 = %i, %vj : 5 = %j) reduce (%vk : 6 = %k) init {
// CHECK:                 loop.store %{{.*}}, %c[%{{.*}}, %{{.*}}] : f32
// CHECK:               } {
// CHECK-NEXT:            %[[A:.*]] = loop.load %a[%vi, %vk] : f32
// CHECK-NEXT:            %[[B:.*]] = loop.load %b[%vk, %vj] : f32
// CHECK-NEXT:            %[[ACC:.*]] = loop.load %c[%vi, %vj] : f32
// CHECK-NEXT:            %[[SUM:.*]] = loop.fma %[[A]], %[[B]], %[[ACC]] : f32, f32, f32
// CHECK-NEXT:            loop.store %[[SUM]], %c[%vi, %vj] : f32
te.func @matmul(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<4x5xf32> attributes {my.note = 2 : i64} {
  %c = te.compute "matmul" (%i : 4, %j : 5) reduce (%k : 6) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<4x5xf32>
  te.return %c : tensor<4x5xf32>
}

// An intermediate stage gets a buffer; one form of comparison, selection and cast is left; masks stay.
// CHECK-LABEL: loop.func @stages(%x: memref<8xi32>, %y: memref<8xf32>)
// CHECK:         %pad = loop.alloc "shared" : memref<10xi32>
// CHECK:           %{{.*}} = loop.load %x[%vi - 1] mask (%vi - 1, -%vi + 8) else %{{.*}} : i32
// CHECK:           %[[M:.*]] = loop.compare slt %[[V:.*]], %{{.*}} : i32
// CHECK-NEXT:      %[[S:.*]] = loop.select %[[M]], %{{.*}}, %[[V]] : i1, i32
// CHECK-NEXT:      loop.cast sitofp %[[S]] : i32 to f32
te.func @stages(%x: tensor<8xi32>) -> tensor<8xf32> {
  %pad = te.compute "pad" (%i : 10) {
    %0 = arith.constant 7 : i32
    %1 = te.read %x[%i - 1] mask (%i - 1, 8 - %i) else %0 : i32
    te.yield %1 : i32
  } : tensor<10xi32>
  %y = te.compute "y" (%i : 8) {
    %0 = arith.constant 0 : i32
    %1 = te.read %pad[%i + 2] : i32
    %2 = arith.cmpi slt, %1, %0 : i32
    %3 = arith.select %2, %0, %1 : i32
    %4 = arith.sitofp %3 : i32 to f32
    te.yield %4 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}

// Of equal values the first index wins, in whatever order the axis is walked.
// CHECK-LABEL: loop.func @argmax
// CHECK:         %[[V:.*]] = loop.alloc "shared" : memref<f32>
// CHECK:         arith.constant 9223372036854775807 : i64
// CHECK:         %[[GT:.*]] = loop.compare ogt
// CHECK:         %[[EQ:.*]] = loop.compare oeq
// CHECK:         %[[LT:.*]] = loop.compare slt
// CHECK:         %[[TIE:.*]] = arith.andi %[[EQ]], %[[LT]] : i1
// CHECK:         arith.ori %[[GT]], %[[TIE]] : i1
te.func @argmax(%x: tensor<8xf32>) -> tensor<i64> {
  %v, %at = te.compute "argmax" () reduce (%k : 8) argmax {
    %0 = te.read %x[%k] : f32
    %1 = arith.index_cast %k : index to i64
    te.yield %0, %1 : f32, i64
  } : tensor<f32>, tensor<i64>
  te.return %at : tensor<i64>
}

// A value returned twice, and an input that is returned, are copied.
// CHECK-LABEL: loop.func @copies(%x: memref<4xf32>, %y: memref<4xf32>, %{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>)
// CHECK:         loop.block "exp"
// CHECK:         loop.block "copy"
// CHECK:           loop.load %y[
// CHECK:         loop.block "copy"
// CHECK:           loop.load %x[
te.func @copies(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y = te.compute "exp" (%i : 4) {
    %0 = te.read %x[%i] : f32
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  te.return %y, %y, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
