// RUN: mlc-opt %s -p loop-scalarize | filecheck %s
// RUN: mlc-opt %s -p loop-scalars | filecheck %s --check-prefix=SCALARS

// Vectorized and unrolled loops become serial; parallel ones stay. The passes behind it then form scalars, no tiles.
// CHECK-LABEL: loop.func @double
// CHECK-NEXT:    loop.for %{{.*}} = 0 to 8 parallel {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 2 {
// CHECK-NEXT:        loop.for %{{.*}} = 0 to 16 {
// SCALARS-LABEL: loop.func @double
// SCALARS-NOT:     vector<
// SCALARS:         %[[v:.*]] = loop.load %{{.*}} : f32
// SCALARS-NEXT:    %[[s:.*]] = arith.addf %[[v]], %[[v]] : f32
loop.func @double(%x: memref<8x2x16xf32>, %y: memref<8x2x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 parallel {
    loop.for %j = 0 to 2 unrolled {
      loop.for %k = 0 to 16 vectorized {
        loop.block "double" (%vi : 8 = %i, %vj : 2 = %j, %vk : 16 = %k) {
          %v = loop.load %x[%vi, %vj, %vk] : f32
          %s = arith.addf %v, %v : f32
          loop.store %s, %y[%vi, %vj, %vk] : f32
        }
      }
    }
  }
}
