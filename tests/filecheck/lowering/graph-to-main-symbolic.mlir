// RUN: mlc-opt %s --split-input-file -p 'graph-fuse-ops,graph-outline-kernels,convert-graph-to-main' | filecheck %s

// Symbols are arguments of @main behind the buffers; offsets follow from sizes: of two buffers that live together, the
// second begins where the first, rounded up to 64 bytes, ends.
// CHECK: func.func @main(%x: memref<?x70xf32>, %out0: memref<?x70xf32>, %N: index, %weights: memref<0xi8>, %workspace: memref<?xi8>)
// CHECK: arith.divui
// CHECK: memref.view %workspace[%{{.*}}][%N] : memref<?xi8> to memref<?x70xf32>
// CHECK: runtime.call @softmax_{{.*}} sizes(%N : index)
// CHECK: runtime.call @softmax_{{.*}} outs(%out0 : memref<?x70xf32>) sizes(%N : index)
func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %0 = graph.softmax %x {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  %1 = graph.softmax %0 {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  return %1 : tensor<?x70xf32, #graph.dims<[N]>>
}

// -----

// What is concatenated is written in place, at an offset that is computed; a slice is a part as well.
// CHECK: func.func @main(%x: memref<4x?xf32>, %out0: memref<3x?xf32>, %N: index
// CHECK:         %[[W:.*]] = memref.view %workspace
// CHECK:         %[[A:.*]] = runtime.part %[[W]] at 0 bytes %[[BYTES:.*]] : memref<8x?xf32> to memref<4x?xf32>
// CHECK:         runtime.call @softmax_{{.*}} outs(%[[A]] : memref<4x?xf32>)
// CHECK:         %[[B:.*]] = runtime.part %[[W]] at 0 + %[[BYTES]] bytes %[[BYTES]] : memref<8x?xf32> to memref<4x?xf32>
// CHECK:         runtime.call @softmax_{{.*}} ins(%[[A]] : memref<4x?xf32>) outs(%[[B]] : memref<4x?xf32>)
// CHECK:         %[[S:.*]] = runtime.part %[[W]] at 0 + %{{.*}} bytes %{{.*}} : memref<8x?xf32> to memref<3x?xf32>
// CHECK:         runtime.call @softmax_{{.*}} ins(%[[S]] : memref<3x?xf32>) outs(%out0 : memref<3x?xf32>)
func.func @main(%x: tensor<4x?xf32, #graph.dims<[N]>>) -> tensor<3x?xf32, #graph.dims<[N]>> {
  %0 = graph.softmax %x {axis = 1} : tensor<4x?xf32, #graph.dims<[N]>>
  %1 = graph.softmax %0 {axis = 1} : tensor<4x?xf32, #graph.dims<[N]>>
  %2 = graph.concatenate %0, %1 {axis = 0} : (tensor<4x?xf32, #graph.dims<[N]>>, tensor<4x?xf32, #graph.dims<[N]>>) -> tensor<8x?xf32, #graph.dims<[N]>>
  %3 = graph.slice %2 {begin = [2, 0], end = [5, 9223372036854775807], strides = [1, 1]} : (tensor<8x?xf32, #graph.dims<[N]>>) -> tensor<3x?xf32, #graph.dims<[N]>>
  %4 = graph.softmax %3 {axis = 1} : tensor<3x?xf32, #graph.dims<[N]>>
  return %4 : tensor<3x?xf32, #graph.dims<[N]>>
}

// -----

// An output that no kernel writes is copied, so many bytes of it.
// CHECK: runtime.copy %x to %out0 bytes %{{.*}} : memref<?xf32> to memref<?xf32>
func.func @main(%x: tensor<?xf32, #graph.dims<[N]>>) -> tensor<?xf32, #graph.dims<[N]>> {
  return %x : tensor<?xf32, #graph.dims<[N]>>
}
