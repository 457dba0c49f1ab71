// RUN: mlc-opt %s --split-input-file --pass-pipeline=convert-main-to-llvm | filecheck %s

// One array on the stack holds the operands' pointers, and behind them the kernels' own memory; a status ends the run.
// CHECK:       llvm.func @k(
// CHECK-LABEL: llvm.func @mlc_main(%{{.*}}: !llvm.ptr {llvm.nonnull}
// CHECK:         %[[ARGS:.*]] = llvm.alloca
// CHECK:         %[[KERNELS:.*]] = llvm.getelementptr inbounds %{{.*}}[64]
// CHECK:         %[[X:.*]] = llvm.load
// CHECK:         llvm.store %[[X]], %[[ARGS]]
// CHECK:         %[[LAST:.*]] = llvm.getelementptr inbounds %[[ARGS]][2]
// CHECK-NEXT:    llvm.store %[[KERNELS]], %[[LAST]]
// CHECK-NEXT:    %[[STATUS:.*]] = llvm.call @k(%[[ARGS]], %{{.*}}) : (!llvm.ptr, !llvm.ptr) -> i32
// CHECK-NEXT:    %[[GOOD:.*]] = llvm.icmp "eq" %[[STATUS]], %{{.*}}
// CHECK-NEXT:    llvm.cond_br %[[GOOD]], ^{{.*}}, ^{{.*}}(%[[STATUS]] : i32)
// CHECK-NOT:     func.func
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %w: memref<0xi8>, %s: memref<64xi8>)
    attributes {mlc.inputs = 1 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 64 : i64, sum = 64 : i64, bound = 64 : i64}} {
  runtime.call @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

// CHECK-LABEL: llvm.func @mlc_main
// CHECK:         llvm.call @memcpy
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %w: memref<0xi8>, %s: memref<0xi8>)
    attributes {mlc.inputs = 1 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 0 : i64, sum = 0 : i64, bound = 0 : i64}} {
  "memref.copy"(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A part is an offset.
// CHECK-LABEL: llvm.func @mlc_main
// CHECK:         %[[Y:.*]] = llvm.load
// CHECK:         %[[P:.*]] = llvm.getelementptr inbounds %[[Y]][16]
// CHECK:         llvm.store %[[P]]
func.func @main(%y: memref<8xf32>, %w: memref<0xi8>, %s: memref<0xi8>)
    attributes {mlc.inputs = 0 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 0 : i64, sum = 0 : i64, bound = 0 : i64}} {
  %p = runtime.part %y at 16 : memref<8xf32> to memref<4xf32>
  runtime.call @k ins() outs(%p : memref<4xf32>)
  return
}

// -----

// Offsets and counts of bytes may be computed.
// CHECK-LABEL: llvm.func @mlc_main
// CHECK:         %[[X:.*]] = llvm.load
// CHECK:         %[[N:.*]] = llvm.load %{{.*}} -> i64
// CHECK:         %[[P:.*]] = llvm.getelementptr inbounds %[[X]][64]
// CHECK:         %[[Q:.*]] = llvm.getelementptr inbounds %[[P]][%[[N]]]
// CHECK:         llvm.call @memset(%[[Q]], %{{.*}}, %[[N]])
// CHECK:         %[[AT:.*]] = llvm.mul %{{.*}}, %[[N]]
// CHECK:         %[[R:.*]] = llvm.getelementptr inbounds %[[X]][%[[AT]]]
// CHECK:         llvm.call @memcpy(%[[Q]], %[[R]], %[[N]])
func.func @main(%x: memref<4x?xi8>, %n: index, %w: memref<0xi8>, %s: memref<?xi8>)
    attributes {mlc.inputs = 0 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 0 : i64, sum = 0 : i64, bound = 0 : i64}} {
  %i = arith.constant 3 : index
  %p = runtime.part %x at 64 + %n bytes %n : memref<4x?xi8> to memref<?xi8>
  runtime.fill %p bytes %n : memref<?xi8>
  %r = runtime.row %x[%i] bytes %n : memref<4x?xi8> to memref<?xi8>
  runtime.copy %r to %p bytes %n : memref<?xi8> to memref<?xi8>
  return
}
