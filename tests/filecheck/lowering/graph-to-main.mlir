// RUN: mlc-opt %s --split-input-file --pass-pipeline=convert-graph-to-main | filecheck %s

// An intermediate stands in the workspace, a parameter in the weights, outputs are written in place.
// CHECK-LABEL: func.func @main(%x: memref<4xf32>, %out0: memref<4xf32>, %weights: memref<64xi8>, %workspace: memref<64xi8>)
// CHECK-SAME:    mlc.plan = {bytes = 64 : i64, sum = 64 : i64, bound = 64 : i64}
// CHECK:         %[[P:.*]] = memref.view %weights[%{{.*}}][] {param = "fc"} : memref<64xi8> to memref<4xf32>
// CHECK:         %[[T:.*]] = memref.view %workspace[%{{.*}}][] : memref<64xi8> to memref<4xf32>
// CHECK-NEXT:    runtime.call @k ins(%x, %[[P]] : memref<4xf32>, memref<4xf32>) outs(%[[T]] : memref<4xf32>) {origins = ["n"]}
// CHECK-NEXT:    runtime.call @k ins(%[[T]], %[[P]] : memref<4xf32>, memref<4xf32>) outs(%out0 : memref<4xf32>)
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.param "fc" : tensor<4xf32>
  %0 = graph.call @k(%x, %w) {origins = ["n"]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.call @k(%0, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @k(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

// -----

// Three of a chain's buffers take the room of two; a reshape is the same memory.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    mlc.plan = {bytes = 128 : i64, sum = 192 : i64, bound = 128 : i64}
// CHECK:         %[[A:.*]] = memref.view
// CHECK:         %[[B:.*]] = memref.reinterpret_cast %[[A]] to offset: [0], sizes: [2, 2], strides: [2, 1]
// CHECK:         runtime.call @square ins(%[[B]] : memref<2x2xf32>)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
  %2 = graph.call @square(%1) : (tensor<2x2xf32>) -> tensor<4xf32>
  %3 = graph.call @k(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.call @k(%3) : (tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// An output that no kernel writes is copied.
// CHECK-LABEL: func.func @main
// CHECK:         "memref.copy"(%x, %out0)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// What is concatenated is written in place; the buffer lives until its last part is read; a slice is a part as well.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    mlc.plan = {bytes = 128 : i64, sum = 128 : i64, bound = 128 : i64}
// CHECK:         %[[W:.*]] = memref.view %workspace[%{{.*}}][] : memref<128xi8> to memref<8x4xf32>
// CHECK-NEXT:    %[[A:.*]] = runtime.part %[[W]] at 0 : memref<8x4xf32> to memref<4x4xf32>
// CHECK-NEXT:    runtime.call @k ins(%x : memref<4x4xf32>) outs(%[[A]] : memref<4x4xf32>)
// CHECK-NEXT:    %[[B:.*]] = runtime.part %[[W]] at 64 : memref<8x4xf32> to memref<4x4xf32>
// CHECK-NEXT:    runtime.call @k ins(%[[A]] : memref<4x4xf32>) outs(%[[B]] : memref<4x4xf32>)
// CHECK-NEXT:    %[[S:.*]] = runtime.part %[[W]] at 32 : memref<8x4xf32> to memref<4x4xf32>
// CHECK-NEXT:    runtime.call @k ins(%[[S]] : memref<4x4xf32>) outs(%out0 : memref<4x4xf32>)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.call @k(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.call @k(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.concatenate %0, %1 {axis = 0} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %3 = graph.slice %2 {begin = [2, 0], end = [6, 4], strides = [1, 1]} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %4 = graph.call @k(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}
