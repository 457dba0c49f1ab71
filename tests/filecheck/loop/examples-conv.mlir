// RUN: mlc-opt %s -p loop-partition,loop-form-tiles,loop-compact-buffers,loop-promote-tiles | filecheck %s

// A 3x3 convolution of blocked channels: the padding is scratch of the thread, the reduction loops carry one tile.
// CHECK-LABEL: loop.func @conv
// CHECK:         loop.for %[[H:.*]] = 0 to 28 parallel {
// CHECK-NEXT:      %[[P:.*]] = loop.alloc "local" : memref<4x3x30x16xf32>
// CHECK:           loop.load %X[{{.*}}] mask ({{.*}}) else
// CHECK-NEXT:      loop.store %{{.*}}, %[[P]]
// CHECK:             loop.for %ic = 0 to 4 iter_args({{.*}}) -> vector<14x2x16xf32> {
// CHECK:                   loop.for %ib = 0 to 16 iter_args(%[[ACC:.*]] = %{{.*}}) -> vector<14x2x16xf32> {
// CHECK-NEXT:                %[[A:.*]] = loop.load %[[P]][{{.*}}] tile (d0 : 14, d1 : 2, d2 : 16) : vector<14x1x1xf32>
// CHECK-NEXT:                %[[F:.*]] = loop.load %F[{{.*}}] tile (d0 : 14, d1 : 2, d2 : 16) : vector<1x2x16xf32>
// CHECK-NEXT:                %[[N:.*]] = loop.fma %[[A]], %[[F]], %[[ACC]]
// CHECK-NEXT:                loop.yield %[[N]] : vector<14x2x16xf32>
// CHECK:             arith.maximumf
// CHECK-NEXT:        loop.store %{{.*}}, %Y
loop.func @conv(%X: memref<4x28x28x16xf32>, %F: memref<4x4x3x3x16x16xf32>, %bias: memref<4x16xf32>, %Y: memref<4x28x28x16xf32>) attributes {outputs = 1 : i64} {
  %P = loop.alloc "shared" : memref<4x30x30x16xf32>
  %T = loop.alloc "shared" : memref<4x28x28x16xf32>
  loop.for %h = 0 to 28 parallel {
    loop.for %c = 0 to 4 {
      loop.for %ph = 0 to 3 {
        loop.for %pw = 0 to 30 {
          loop.for %b = 0 to 16 vectorized {
            loop.block "pad" (%vc : 4 = %c, %vh : 30 = %h + %ph, %vw : 30 = %pw, %vb : 16 = %b) {
              %z = arith.constant 0.000000e+00 : f32
              %x = loop.load %X[%vc, %vh - 1, %vw - 1, %vb] mask (%vh - 1, -%vh + 28, %vw - 1, -%vw + 28) else %z : f32
              loop.store %x, %P[%vc, %vh, %vw, %vb] : f32
            }
          }
        }
      }
    }
    loop.for %oc = 0 to 2 {
      loop.for %wo = 0 to 2 {
        loop.for %w = 0 to 14 vectorized {
          loop.for %o = 0 to 2 vectorized {
            loop.for %b_1 = 0 to 16 vectorized {
              loop.block "conv_init" (%vc_1 : 4 = %oc * 2 + %o, %vh_1 : 28 = %h, %vw_1 : 28 = %wo * 14 + %w, %vb_1 : 16 = %b_1) {
                %z_1 = arith.constant 0.000000e+00 : f32
                loop.store %z_1, %T[%vc_1, %vh_1, %vw_1, %vb_1] : f32
              }
            }
          }
        }
        loop.for %ic = 0 to 4 {
          loop.for %kh = 0 to 3 {
            loop.for %kw = 0 to 3 {
              loop.for %ib = 0 to 16 {
                loop.for %w_1 = 0 to 14 vectorized {
                  loop.for %o_1 = 0 to 2 vectorized {
                    loop.for %b_2 = 0 to 16 vectorized {
                      loop.block "conv" (%vc_2 : 4 = %oc * 2 + %o_1, %vh_2 : 28 = %h, %vw_2 : 28 = %wo * 14 + %w_1, %vb_2 : 16 = %b_2) reduce (%vi : 4 = %ic, %vkh : 3 = %kh, %vkw : 3 = %kw, %vib : 16 = %ib) {
                        %x_1 = loop.load %P[%vi, %vh_2 + %vkh, %vw_2 + %vkw, %vib] : f32
                        %f = loop.load %F[%vc_2, %vi, %vkh, %vkw, %vib, %vb_2] : f32
                        %a = loop.load %T[%vc_2, %vh_2, %vw_2, %vb_2] : f32
                        %n = loop.fma %x_1, %f, %a : f32, f32, f32
                        loop.store %n, %T[%vc_2, %vh_2, %vw_2, %vb_2] : f32
                      }
                    }
                  }
                }
              }
            }
          }
        }
        loop.for %w_2 = 0 to 14 vectorized {
          loop.for %o_2 = 0 to 2 vectorized {
            loop.for %b_3 = 0 to 16 vectorized {
              loop.block "out" (%vc_3 : 4 = %oc * 2 + %o_2, %vh_3 : 28 = %h, %vw_3 : 28 = %wo * 14 + %w_2, %vb_3 : 16 = %b_3) {
                %t = loop.load %T[%vc_3, %vh_3, %vw_3, %vb_3] : f32
                %bb = loop.load %bias[%vc_3, %vb_3] : f32
                %s = arith.addf %t, %bb : f32
                %z_2 = arith.constant 0.000000e+00 : f32
                %r = arith.maximumf %s, %z_2 : f32
                loop.store %r, %Y[%vc_3, %vh_3, %vw_3, %vb_3] : f32
              }
            }
          }
        }
      }
    }
  }
}
