// RUN: mlc-opt %s | filecheck %s
// RUN: mlc-opt %s -p 'convert-loop-to-llvm{instructions=tdpbf16ps}' | filecheck %s --check-prefix=UNIT
// RUN: mlc-opt %s -p 'convert-loop-to-llvm{instructions=dpbf16ps}' | filecheck %s --check-prefix=VECTORS

// Two words a lane are summed at once: the matrix unit takes both factors from memory, and the loop carries its register.
// CHECK-LABEL: loop.func @product
// CHECK:         loop.contract %{{.*}} : vector<4x1x2x2xbf16>, vector<1x16x2x2xbf16>, vector<4x16xf32>
// UNIT-LABEL:  llvm.func @product
// UNIT:          %[[ZERO:.*]] = llvm_ext.intrinsic "llvm.x86.tilezero.internal"
// UNIT:          llvm.br ^bb1(%{{.*}}, %[[ZERO]] : i64, !llvm_ext.x86_amx)
// UNIT:        ^bb1(%{{.*}}: i64, %[[ACC:.*]]: !llvm_ext.x86_amx):
// UNIT:          %[[A:.*]] = llvm_ext.intrinsic "llvm.x86.tileloadd64.internal"
// UNIT:          %[[B:.*]] = llvm_ext.intrinsic "llvm.x86.tileloadd64.internal"
// UNIT:          %[[SUM:.*]] = llvm_ext.intrinsic "llvm.x86.tdpbf16ps.internal"(%{{.*}}, %[[ACC]], %[[A]], %[[B]])
// UNIT:        ^bb2:
// UNIT:          llvm_ext.intrinsic "llvm.x86.tilestored64.internal"(%{{.*}}, %[[SUM]])
// VECTORS-LABEL: llvm.func @product
// VECTORS-NOT:   x86_amx
// VECTORS-COUNT-8: llvm.x86.avx512bf16.dpbf16ps.512
loop.func @product(%a: memref<4x8xbf16>, %b: memref<4x16x2xbf16>, %c: memref<4x16xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %1 = loop.broadcast %0 : f32 to vector<4x16xf32>
  %2 = loop.for %k = 0 to 2 iter_args(%acc = %1) -> vector<4x16xf32> {
    %x = loop.load %a[d0, d2 * 2 + d3 + %k * 4] tile (d0 : 4, d1 : 16, d2 : 2, d3 : 2) : vector<4x1x2x2xbf16>
    %y = loop.load %b[d2 + %k * 2, d1, d3] tile (d0 : 4, d1 : 16, d2 : 2, d3 : 2) : vector<1x16x2x2xbf16>
    %n = loop.contract %x, %y, %acc : vector<4x1x2x2xbf16>, vector<1x16x2x2xbf16>, vector<4x16xf32>
    loop.yield %n : vector<4x16xf32>
  }
  loop.store %2, %c[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  loop.yield
}
