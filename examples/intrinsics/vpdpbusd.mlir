// Four products of unsigned by signed bytes in each lane of i32: vpdpbusd of AVX-512 VNNI (docs/schedules.md).
sched.intrinsic "x86.vpdpbusd" requires ["avx512vnni"] {
  loop.func @means(%a: memref<4xi8>, %b: memref<16x4xi8>, %c: memref<16xi32>) attributes {outputs = 1 : i64} {
    loop.for %j = 0 to 16 { loop.for %k = 0 to 4 {
      loop.block "dot" (%vj : 16 = %j) reduce (%vk : 4 = %k) {
        %0 = loop.load %a[%vk] : i8
        %1 = loop.cast extui %0 : i8 to i32
        %2 = loop.load %b[%vj, %vk] : i8
        %3 = loop.cast extsi %2 : i8 to i32
        %4 = loop.load %c[%vj] : i32
        %5 = loop.fma %1, %3, %4 : i32, i32, i32
        loop.store %5, %c[%vj] : i32
      }
    } }
  }
  loop.func @emits(%a: memref<4xi8>, %b: memref<16x4xi8>, %c: memref<16xi32>) attributes {outputs = 1 : i64} {
    %0 = loop.load %a[d1] tile (d0 : 16, d1 : 4) : vector<1x4xi8>
    %1 = loop.load %b[d0, d1] tile (d0 : 16, d1 : 4) : vector<16x4xi8>
    %2 = loop.load %c[d0] tile (d0 : 16) : vector<16xi32>
    %3 = loop.intrinsic "llvm.x86.avx512.vpdpbusd.512" requires ["avx512vnni"] %2, %0, %1
        : vector<16xi32>, vector<1x4xi8>, vector<16x4xi8> as vector<16xi32>, vector<64xi8>, vector<64xi8> {
    ^bb0(%c1: vector<16xi32>, %a1: vector<1x4xi8>, %b1: vector<16x4xi8>):
      %4 = loop.contract %a1 unsigned, %b1, %c1 : vector<1x4xi8>, vector<16x4xi8>, vector<16xi32>
      loop.yield %4 : vector<16xi32>
    }
    loop.store %3, %c[d0] tile (d0 : 16) : vector<16xi32>
  }
}
