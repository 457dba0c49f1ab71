// RUN: mlc-opt %s -p loop-partition,loop-form-tiles,loop-compact-buffers,loop-promote-tiles | filecheck %s

// GEMM + bias + relu: the accumulator is one value that the k loop carries; the buffer of the sum is gone.
// CHECK-LABEL: loop.func @gemm
// CHECK-NOT:     loop.alloc
// CHECK:         loop.for %[[I:.*]] = 0 to 7 parallel {
// CHECK:           loop.for %[[J:.*]] = 0 to 2 {
// CHECK-NEXT:        %[[R:.*]] = loop.for %[[K:.*]] = 0 to 96 iter_args(%[[ACC:.*]] = %{{.*}}) -> vector<12x32xf32> {
// CHECK-NEXT:          %[[A:.*]] = loop.load %A[d0 + %[[I]] * 12, %[[K]]] tile (d0 : 12, d1 : 32) : vector<12x1xf32>
// CHECK-NEXT:          %[[B:.*]] = loop.load %B[%[[K]], d1 + %[[J]] * 32] tile (d0 : 12, d1 : 32) : vector<1x32xf32>
// CHECK-NEXT:          %[[N:.*]] = loop.fma %[[A]], %[[B]], %[[ACC]]
// CHECK-NEXT:          loop.yield %[[N]] : vector<12x32xf32>
// CHECK:             loop.load %bias[d1 + %[[J]] * 32]
// CHECK:             arith.addf %[[R]]
// CHECK-NEXT:        %[[OUT:.*]] = arith.maximumf
// CHECK-NEXT:        loop.store %[[OUT]], %C[d0 + %[[I]] * 12, d1 + %[[J]] * 32]
// CHECK-NOT:     loop.store
loop.func @gemm(%A: memref<84x96xf32>, %B: memref<96x64xf32>, %bias: memref<64xf32>, %C: memref<84x64xf32>) attributes {outputs = 1 : i64} {
  %T = loop.alloc "shared" : memref<84x64xf32>
  loop.for %io = 0 to 7 parallel {
    loop.for %jo = 0 to 2 {
      loop.for %i = 0 to 12 vectorized {
        loop.for %j = 0 to 32 vectorized {
          loop.block "init" (%vi : 84 = %io * 12 + %i, %vj : 64 = %jo * 32 + %j) {
            %z = arith.constant 0.000000e+00 : f32
            loop.store %z, %T[%vi, %vj] : f32
          }
        }
      }
      loop.for %k = 0 to 96 {
        loop.for %i_1 = 0 to 12 vectorized {
          loop.for %j_1 = 0 to 32 vectorized {
            loop.block "mm" (%vi_1 : 84 = %io * 12 + %i_1, %vj_1 : 64 = %jo * 32 + %j_1) reduce (%vk : 96 = %k) {
              %a = loop.load %A[%vi_1, %vk] : f32
              %b = loop.load %B[%vk, %vj_1] : f32
              %c = loop.load %T[%vi_1, %vj_1] : f32
              %d = loop.fma %a, %b, %c : f32, f32, f32
              loop.store %d, %T[%vi_1, %vj_1] : f32
            }
          }
        }
      }
      loop.for %i_2 = 0 to 12 vectorized {
        loop.for %j_2 = 0 to 32 vectorized {
          loop.block "out" (%vi_2 : 84 = %io * 12 + %i_2, %vj_2 : 64 = %jo * 32 + %j_2) {
            %t = loop.load %T[%vi_2, %vj_2] : f32
            %b_1 = loop.load %bias[%vj_2] : f32
            %s = arith.addf %t, %b_1 : f32
            %z_1 = arith.constant 0.000000e+00 : f32
            %r = arith.maximumf %s, %z_1 : f32
            loop.store %r, %C[%vi_2, %vj_2] : f32
          }
        }
      }
    }
  }
}
