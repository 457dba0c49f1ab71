// Four products of signed bytes in each lane of i32: sdot of Armv8.2 with the dot product extension (docs/schedules.md).
sched.intrinsic "aarch64.sdot" requires ["dotprod"] {
  loop.func @means(%a: memref<4xi8>, %b: memref<4x4xi8>, %c: memref<4xi32>) attributes {outputs = 1 : i64} {
    loop.for %j = 0 to 4 { loop.for %k = 0 to 4 {
      loop.block "dot" (%vj : 4 = %j) reduce (%vk : 4 = %k) {
        %0 = loop.load %a[%vk] : i8
        %1 = loop.cast extsi %0 : i8 to i32
        %2 = loop.load %b[%vj, %vk] : i8
        %3 = loop.cast extsi %2 : i8 to i32
        %4 = loop.load %c[%vj] : i32
        %5 = loop.fma %1, %3, %4 : i32, i32, i32
        loop.store %5, %c[%vj] : i32
      }
    } }
  }
  loop.func @emits(%a: memref<4xi8>, %b: memref<4x4xi8>, %c: memref<4xi32>) attributes {outputs = 1 : i64} {
    %0 = loop.load %a[d1] tile (d0 : 4, d1 : 4) : vector<1x4xi8>
    %1 = loop.load %b[d0, d1] tile (d0 : 4, d1 : 4) : vector<4x4xi8>
    %2 = loop.load %c[d0] tile (d0 : 4) : vector<4xi32>
    %3 = loop.intrinsic "llvm.aarch64.neon.sdot.v4i32.v16i8" requires ["dotprod"] %2, %0, %1
        : vector<4xi32>, vector<1x4xi8>, vector<4x4xi8> as vector<4xi32>, vector<16xi8>, vector<16xi8> {
    ^bb0(%c1: vector<4xi32>, %a1: vector<1x4xi8>, %b1: vector<4x4xi8>):
      %4 = loop.contract %a1, %b1, %c1 : vector<1x4xi8>, vector<4x4xi8>, vector<4xi32>
      loop.yield %4 : vector<4xi32>
    }
    loop.store %3, %c[d0] tile (d0 : 4) : vector<4xi32>
  }
}
