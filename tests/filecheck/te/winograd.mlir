// RUN: mlc-opt %s -p 'convert-graph-to-te,te-inline,te-add-schedule{target=znver5 threads=2},convert-te-to-loop,loop-apply-schedule,loop-tiles' | filecheck %s

// Blocks of tile rows whose transforms stay in L2 beside the weights: one parallel loop over all steps.
// CHECK-LABEL: loop.func @blocked
// CHECK:         loop.for %{{.*}} = 0 to 14 parallel {
// CHECK:           %v = loop.alloc "local" : memref<4x6x6x14x16xf32>
// CHECK:           loop.for %{{.*}} = 0 to 4 {
// CHECK:             loop.for %[[t:.*]] = 0 to 14 {
// CHECK:               %[[columns:.*]] = loop.concat %{{.*}} axis 0 : vector<1x6x16xf32> to vector<6x6x16xf32>
// CHECK:               loop.slice %[[columns]] axis 1 at 0 : vector<6x6x16xf32> to vector<6x1x16xf32>
// CHECK:               loop.store %{{.*}}, %v[%{{.*}}, d0, d1, %[[t]], d2] tile (d0 : 6, d1 : 6, d2 : 16)
// CHECK:           %m = loop.alloc "local" : memref<4x6x6x14x16xf32>
// CHECK:             loop.fma %{{.*}} : vector<14x1x1xf32>, vector<1x2x16xf32>, vector<14x2x16xf32>
// CHECK:           loop.store %{{.*}}, %relu[{{.*}}] tile (d0 : 4, d1 : 4, d2 : 16)
func.func @blocked(%x: tensor<1x4x56x56x16xf32>, %u: tensor<6x6x4x4x16x16xf32>) -> tensor<1x4x56x56x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d_winograd %x, %u : (tensor<1x4x56x56x16xf32>, tensor<6x6x4x4x16x16xf32>) -> tensor<1x4x56x56x16xf32>
  %1 = graph.relu %0 : tensor<1x4x56x56x16xf32>
  return %1 : tensor<1x4x56x56x16xf32>
}

// Many weights, few tiles: three parallel passes, so that the weights are read once.
// CHECK-LABEL: loop.func @passes
// CHECK:         %v = loop.alloc "shared" : memref<16x6x6x16x16xf32>
// CHECK:         loop.for %{{.*}} = 0 to 64 parallel {
// CHECK:         loop.for %{{.*}} = 0 to 36 parallel {
// CHECK:           loop.fma %{{.*}} : vector<6x1x1xf32>, vector<1x4x16xf32>, vector<6x4x16xf32>
// CHECK:         loop.for %{{.*}} = 0 to 64 parallel {
func.func @passes(%x: tensor<1x16x14x14x16xf32>, %u: tensor<6x6x16x16x16x16xf32>) -> tensor<1x16x14x14x16xf32> attributes {graph.kernel} {
  %0 = graph.conv2d_winograd %x, %u : (tensor<1x16x14x14x16xf32>, tensor<6x6x16x16x16x16xf32>) -> tensor<1x16x14x14x16xf32>
  return %0 : tensor<1x16x14x14x16xf32>
}
