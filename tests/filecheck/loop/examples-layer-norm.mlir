// RUN: mlc-opt %s -p loop-partition,loop-form-tiles,loop-compact-buffers,loop-promote-tiles | filecheck %s

// Layer norm: mean and variance stay in registers, and the reciprocal root stands in front of the last loop.
// CHECK-LABEL: loop.func @layer_norm
// CHECK-NOT:     loop.alloc
// CHECK:         loop.for %[[I:.*]] = 0 to 8 {
// CHECK-NEXT:      %[[M:.*]] = loop.for {{.*}} iter_args({{.*}}) -> vector<16xf32> {
// CHECK:           loop.reduce sum %[[M]]
// CHECK:           %[[V:.*]] = loop.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> vector<16xf32> {
// CHECK:             loop.fma %[[D:.*]], %[[D]], %[[ACC]]
// CHECK:           loop.reduce sum %[[V]]
// CHECK:           %[[R:.*]] = math.rsqrt %{{.*}} : vector<1xf32>
// CHECK-NEXT:      %[[W:.*]] = loop.broadcast %[[R]]
// CHECK-NEXT:      loop.for
// CHECK:             arith.mulf %{{.*}}, %[[W]]
// CHECK:             loop.store %{{.*}}, %Y
loop.func @layer_norm(%X: memref<8x48xf32>, %G: memref<48xf32>, %Y: memref<8x48xf32>) attributes {outputs = 1 : i64} {
  %M = loop.alloc "shared" : memref<8xf32>
  %V = loop.alloc "shared" : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.block "mean_init" (%vi : 8 = %i) {
      %z = arith.constant 0.000000e+00 : f32
      loop.store %z, %M[%vi] : f32
    }
    loop.for %ko = 0 to 3 {
      loop.for %ki = 0 to 16 vectorized {
        loop.block "mean" (%vi_1 : 8 = %i) reduce (%vk : 48 = %ko * 16 + %ki) {
          %a = loop.load %M[%vi_1] : f32
          %x = loop.load %X[%vi_1, %vk] : f32
          %r = arith.addf %a, %x : f32
          loop.store %r, %M[%vi_1] : f32
        }
      }
    }
    loop.block "var_init" (%vi_2 : 8 = %i) {
      %z_1 = arith.constant 0.000000e+00 : f32
      loop.store %z_1, %V[%vi_2] : f32
    }
    loop.for %ko_1 = 0 to 3 {
      loop.for %ki_1 = 0 to 16 vectorized {
        loop.block "var" (%vi_3 : 8 = %i) reduce (%vk_1 : 48 = %ko_1 * 16 + %ki_1) {
          %a_1 = loop.load %V[%vi_3] : f32
          %m = loop.load %M[%vi_3] : f32
          %x_1 = loop.load %X[%vi_3, %vk_1] : f32
          %c = arith.constant 0.020833334 : f32
          %mm = arith.mulf %m, %c : f32
          %d = arith.subf %x_1, %mm : f32
          %r_1 = loop.fma %d, %d, %a_1 : f32, f32, f32
          loop.store %r_1, %V[%vi_3] : f32
        }
      }
    }
    loop.for %ko_2 = 0 to 3 {
      loop.for %ki_2 = 0 to 16 vectorized {
        loop.block "out" (%vi_4 : 8 = %i, %vk_2 : 48 = %ko_2 * 16 + %ki_2) {
          %m_1 = loop.load %M[%vi_4] : f32
          %x_2 = loop.load %X[%vi_4, %vk_2] : f32
          %c_1 = arith.constant 0.020833334 : f32
          %mm_1 = arith.mulf %m_1, %c_1 : f32
          %d_1 = arith.subf %x_2, %mm_1 : f32
          %g = loop.load %G[%vk_2] : f32
          %v = loop.load %V[%vi_4] : f32
          %vm = arith.mulf %v, %c_1 : f32
          %eps = arith.constant 1.000000e-05 : f32
          %ve = arith.addf %vm, %eps : f32
          %rs = math.rsqrt %ve : f32
          %o = arith.mulf %d_1, %rs : f32
          %p = arith.mulf %o, %g : f32
          loop.store %p, %Y[%vi_4, %vk_2] : f32
        }
      }
    }
  }
}
