// RUN: mlc-opt %s -p 'graph-fuse-ops,graph-outline-kernels,convert-graph-to-main' | filecheck %s

// Symbols are arguments of @main behind the buffers; offsets follow from sizes: of two buffers that live together, the
// second begins where the first, rounded up to 64 bytes, ends.
// CHECK: func.func @main(%x: memref<?x70xf32>, %out0: memref<?x70xf32>, %N: index, %weights: memref<0xi8>, %workspace: memref<?xi8>)
// CHECK: arith.divui
// CHECK: memref.view %workspace[%{{.*}}][%{{.*}}] : memref<?xi8> to memref<?xi8>
// CHECK: runtime.call @softmax_{{.*}} sizes(%N : index)
// CHECK: runtime.call @softmax_{{.*}} outs(%out0 : memref<?x70xf32>) sizes(%N : index)
func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %0 = graph.softmax %x {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  %1 = graph.softmax %0 {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  return %1 : tensor<?x70xf32, #graph.dims<[N]>>
}
