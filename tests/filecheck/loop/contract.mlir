// RUN: mlc-opt %s -p loop-form-tiles,loop-promote-tiles | filecheck %s
// RUN: mlc-opt %s -p 'loop-form-tiles,loop-promote-tiles,convert-loop-to-llvm{instructions=dpbf16ps}' | filecheck %s --check-prefix=DOT
// RUN: mlc-opt %s -p loop-form-tiles,loop-promote-tiles,convert-loop-to-llvm | filecheck %s --check-prefix=APART
// RUN: mlc-opt %s -p 'loop-form-tiles,loop-promote-tiles,convert-loop-to-llvm{vector-bits=256 instructions="pmaddwd,pmaddubsw"}' | filecheck %s --check-prefix=BYTES

// Two factors of 16 bits are one word: their products are summed inside, and the accumulator has no axis for them.
// CHECK-LABEL: loop.func @words
// CHECK:         loop.for %k = 0 to 8 iter_args(%[[ACC:.*]] = %{{.*}}) -> vector<2x16xf32> {
// CHECK-NEXT:      %[[A:.*]] = loop.load %A[d0, d2 + %k * 2] tile (d0 : 2, d1 : 16, d2 : 2) : vector<2x1x2xbf16>
// CHECK-NEXT:      %[[B:.*]] = loop.load %B[%k, d1, d2] tile (d0 : 2, d1 : 16, d2 : 2) : vector<1x16x2xbf16>
// CHECK-NEXT:      %[[N:.*]] = loop.contract %[[A]], %[[B]], %[[ACC]] : vector<2x1x2xbf16>, vector<1x16x2xbf16>, vector<2x16xf32>
// CHECK-NEXT:      loop.yield %[[N]]
// DOT-LABEL:   llvm.func @words
// DOT:           llvm.load {{.*}} -> i32
// DOT:           llvm.load {{.*}} -> vector<16xi32>
// DOT-COUNT-2:   llvm.x86.avx512bf16.dpbf16ps.512
// DOT-NOT:       llvm.intr.fma
// APART-LABEL: llvm.func @words
// APART-NOT:     dpbf16ps
// APART-COUNT-4: llvm.intr.fma
loop.func @words(%A: memref<2x16xbf16>, %B: memref<8x16x2xbf16>, %C: memref<2x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 8 {
    loop.for %i = 0 to 2 vectorized {
      loop.for %j = 0 to 16 vectorized {
        loop.for %w = 0 to 2 vectorized {
          loop.block "dense" (%vi : 2 = %i, %vj : 16 = %j) reduce (%vk : 16 = %k * 2 + %w) {
            %a = loop.load %A[%vi, %vk] : bf16
            %b = loop.load %B[%vk floordiv 2, %vj, %vk mod 2] : bf16
            %x = loop.cast extf %a : bf16 to f32
            %y = loop.cast extf %b : bf16 to f32
            %c = loop.load %C[%vi, %vj] : f32
            %n = loop.fma %x, %y, %c : f32, f32, f32
            loop.store %n, %C[%vi, %vj] : f32
          }
        }
      }
    }
  }
}

// Three steps are no word: the products are formed in f32 and reduced.
// CHECK-LABEL: loop.func @three
// CHECK-NOT:     loop.contract
// CHECK:         loop.reduce sum
loop.func @three(%A: memref<2x3xbf16>, %B: memref<16x3xbf16>, %C: memref<2x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 2 vectorized {
    loop.for %j = 0 to 16 vectorized {
      loop.for %w = 0 to 3 vectorized {
        loop.block "dense" (%vi : 2 = %i, %vj : 16 = %j) reduce (%vk : 3 = %w) {
          %a = loop.load %A[%vi, %vk] : bf16
          %b = loop.load %B[%vj, %vk] : bf16
          %x = loop.cast extf %a : bf16 to f32
          %y = loop.cast extf %b : bf16 to f32
          %c = loop.load %C[%vi, %vj] : f32
          %n = loop.fma %x, %y, %c : f32, f32, f32
          loop.store %n, %C[%vi, %vj] : f32
        }
      }
    }
  }
}

// Bytes that the kernel's attribute calls narrow are multiplied in pairs whose sums fit in 16 bits.
// CHECK-LABEL: loop.func @narrow
// CHECK:         loop.contract %{{.*}} unsigned, %{{.*}} narrow, %{{.*}} : vector<2x1x4xi8>, vector<1x8x4xi8>, vector<2x8xi32>
// BYTES-LABEL: llvm.func @narrow
// BYTES-COUNT-2: llvm.x86.avx2.pmadd.ub.sw
// BYTES-NOT:     llvm.lshr
loop.func @narrow(%A: memref<2x16xi8>, %B: memref<4x8x4xi8>, %C: memref<2x8xi32>)
    attributes {outputs = 1 : i64, mlc.narrow_bytes = array<i64: 1>} {
  loop.for %k = 0 to 4 {
    loop.for %i = 0 to 2 vectorized {
      loop.for %j = 0 to 8 vectorized {
        loop.for %w = 0 to 4 vectorized {
          loop.block "dense" (%vi : 2 = %i, %vj : 8 = %j) reduce (%vk : 16 = %k * 4 + %w) {
            %a = loop.load %A[%vi, %vk] : i8
            %b = loop.load %B[%vk floordiv 4, %vj, %vk mod 4] : i8
            %x = loop.cast extui %a : i8 to i32
            %y = loop.cast extsi %b : i8 to i32
            %c = loop.load %C[%vi, %vj] : i32
            %n = loop.fma %x, %y, %c : i32, i32, i32
            loop.store %n, %C[%vi, %vj] : i32
          }
        }
      }
    }
  }
}
