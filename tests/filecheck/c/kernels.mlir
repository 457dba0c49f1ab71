// RUN: mlc-opt %s --emit=c | filecheck %s

// CHECK: static inline int64_t mlc_floordiv(int64_t a, int64_t b)

// CHECK-LABEL: int32_t matmul(void **args, void *rt) {
// CHECK:         float *restrict A_0 = (float *)args[0];
// CHECK-NEXT:    float *restrict B_1 = (float *)args[1];
// CHECK-NEXT:    float *restrict C_2 = (float *)args[2];
// CHECK-NEXT:    for (int64_t i_3 = 0, end_i_3 = 5; i_3 < end_i_3; ++i_3) {  /* parallel */
// CHECK:           if (i_3 * (-1) + 3 >= 0) {  /* mm */
loop.func @matmul(%A: memref<4x6xf32>, %B: memref<6x7xf32>, %C: memref<4x7xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 5 parallel {
    loop.for %j = 0 to 7 {
      loop.for %k = 0 to 6 {
        loop.block "mm" (%vi : 4 = %i, %vj : 7 = %j) reduce (%vk : 6 = %k) where (3 - %i) init {
        ^bb0(%vi : index, %vj : index, %vk : index):
          // CHECK: if ([[K:vk_[0-9]+]] == 0) {
          // CHECK-NEXT: float z_[[Z:[0-9]+]];
          // CHECK-NEXT: z_[[Z]] = 0x0.0p+0f;
          %z = arith.constant 0.0 : f32
          loop.store %z, %C[%vi, %vj] : f32
        } {
          // CHECK: a_[[A:[0-9]+]] = A_0[(vi_[[I:[0-9]+]]) * 6 + [[K]]];
          %a = loop.load %A[%vi, %vk] : f32
          %b = loop.load %B[%vk, %vj] : f32
          %c = loop.load %C[%vi, %vj] : f32
          // CHECK: n_[[N:[0-9]+]] = fmaf(a_[[A]], b_{{[0-9]+}}, c_{{[0-9]+}});
          %n = loop.fma %a, %b, %c : f32, f32, f32
          // CHECK: C_2[(vi_[[I]]) * 7 + vj_{{[0-9]+}}] = n_[[N]];
          loop.store %n, %C[%vi, %vj] : f32
        }
      }
    }
  }
// CHECK:       return 0;
}

// CHECK-LABEL: int32_t tiles(void **args, void *rt) {
loop.func @tiles(%A: memref<8x8xf32>, %C: memref<8x8xbf16>, %n: index) attributes {outputs = 1 : i64} {
  // CHECK: const int64_t n_2 = (int64_t)(intptr_t)args[2];
  // A load is an array; the operations that follow it share one loop over their lanes.
  // CHECK: float v_[[V:[0-9]+]][4];
  // CHECK-NEXT: for (int64_t d0 = 0; d0 < 4; ++d0) {
  // CHECK: if (n_2 + d0 * (-1) >= 0) { v_[[V]][(d0) * 1] = A_0[n_2 + d0 * 8]; } else v_[[V]][(d0) * 1] = f_{{[0-9]+}};
  // CHECK: for (int64_t d0 = 0; d0 < 4; ++d0) for (int64_t d1 = 0; d1 < 8; ++d1) {
  %s = arith.constant 1.5 : f32
  %f = loop.broadcast %s : f32 to vector<4x1xf32>
  %v = loop.load %A[d0, %n] mask (%n - d0) else %f tile (d0 : 4, d1 : 8) : vector<4x1xf32>
  // CHECK: b_[[B:[0-9]+]] = v_[[V]][(d0) * 1];
  %b = loop.broadcast %v : vector<4x1xf32> to vector<4x8xf32>
  // CHECK: t_[[T:[0-9]+]] = mlc_bf16((float)b_[[B]]);
  %t = loop.cast truncf %b : vector<4x8xf32> to vector<4x8xbf16>
  // CHECK: C_1[(mlc_floordiv(d0, 2)) * 8 + d1] = mlc_to_bf16(t_[[T]]);
  loop.store %t, %C[d0 floordiv 2, d1] tile (d0 : 4, d1 : 8) : vector<4x8xbf16>
  // CHECK: float *restrict big_[[G:[0-9]+]] = (float *)malloc(16384);
  // CHECK: free(big_[[G]]);
  %big = loop.alloc "shared" : memref<64x64xf32>
}
