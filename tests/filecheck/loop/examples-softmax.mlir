// RUN: mlc-opt %s -p loop-partition,loop-form-tiles,loop-compact-buffers,loop-promote-tiles | filecheck %s

// Softmax: the maximum and the sum accumulate in lanes and are reduced once; one row of exponentials is scratch.
// CHECK-LABEL: loop.func @softmax
// CHECK:         loop.for %[[I:.*]] = 0 to 8 parallel {
// CHECK:           %[[M:.*]] = loop.for {{.*}} iter_args({{.*}}) -> vector<16xf32> {
// CHECK:             arith.maximumf
// CHECK:           %{{.*}} = loop.reduce max %[[M]] axes [0] : vector<16xf32> to vector<1xf32>
// CHECK:           %[[E:.*]] = loop.alloc "local" : memref<1x48xf32>
// CHECK:             math.exp %{{.*}} : vector<16xf32>
// CHECK-NEXT:        loop.store %{{.*}}, %[[E]]
// CHECK:           %[[S:.*]] = loop.for {{.*}} iter_args({{.*}}) -> vector<16xf32> {
// CHECK:           %{{.*}} = loop.reduce sum %[[S]] axes [0] : vector<16xf32> to vector<1xf32>
// CHECK:             arith.divf %{{.*}} : vector<16xf32>
// CHECK-NEXT:        loop.store %{{.*}}, %Y
loop.func @softmax(%X: memref<8x48xf32>, %Y: memref<8x48xf32>) attributes {outputs = 1 : i64} {
  %M = loop.alloc "shared" : memref<8xf32>
  %E = loop.alloc "shared" : memref<8x48xf32>
  %S = loop.alloc "shared" : memref<8xf32>
  loop.for %i = 0 to 8 parallel {
    loop.block "max_init" (%vi : 8 = %i) {
      %z = arith.constant 0xff800000 : f32
      loop.store %z, %M[%vi] : f32
    }
    loop.for %ko = 0 to 3 {
      loop.for %ki = 0 to 16 vectorized {
        loop.block "max" (%vi_1 : 8 = %i) reduce (%vk : 48 = %ko * 16 + %ki) {
          %a = loop.load %M[%vi_1] : f32
          %x = loop.load %X[%vi_1, %vk] : f32
          %r = arith.maximumf %a, %x : f32
          loop.store %r, %M[%vi_1] : f32
        }
      }
    }
    loop.for %ko_1 = 0 to 3 {
      loop.for %ki_1 = 0 to 16 vectorized {
        loop.block "exp" (%vi_2 : 8 = %i, %vk_1 : 48 = %ko_1 * 16 + %ki_1) {
          %x_1 = loop.load %X[%vi_2, %vk_1] : f32
          %m = loop.load %M[%vi_2] : f32
          %d = arith.subf %x_1, %m : f32
          %e = math.exp %d : f32
          loop.store %e, %E[%vi_2, %vk_1] : f32
        }
      }
    }
    loop.block "sum_init" (%vi_3 : 8 = %i) {
      %z_1 = arith.constant 0.000000e+00 : f32
      loop.store %z_1, %S[%vi_3] : f32
    }
    loop.for %ko_2 = 0 to 3 {
      loop.for %ki_2 = 0 to 16 vectorized {
        loop.block "sum" (%vi_4 : 8 = %i) reduce (%vk_2 : 48 = %ko_2 * 16 + %ki_2) {
          %a_1 = loop.load %S[%vi_4] : f32
          %x_2 = loop.load %E[%vi_4, %vk_2] : f32
          %r_1 = arith.addf %x_2, %a_1 : f32
          loop.store %r_1, %S[%vi_4] : f32
        }
      }
    }
    loop.for %ko_3 = 0 to 3 {
      loop.for %ki_3 = 0 to 16 vectorized {
        loop.block "out" (%vi_5 : 8 = %i, %vk_3 : 48 = %ko_3 * 16 + %ki_3) {
          %e_1 = loop.load %E[%vi_5, %vk_3] : f32
          %s = loop.load %S[%vi_5] : f32
          %d_1 = arith.divf %e_1, %s : f32
          loop.store %d_1, %Y[%vi_5, %vk_3] : f32
        }
      }
    }
  }
}
