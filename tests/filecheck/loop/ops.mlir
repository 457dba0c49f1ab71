// RUN: mlc-opt %s | filecheck %s
// RUN: MLC_ROUNDTRIP
// RUN: MLC_GENERIC

// CHECK-LABEL: loop.func @nest(%A: memref<4x8xf32>, %C: memref<4x7xf32>, %n: index) attributes {outputs = 1 : i64}
// GENERIC: "loop.func"() <{sym_name = "nest"
loop.func @nest(%A: memref<4x8xf32>, %C: memref<4x7xf32>, %n: index) attributes {outputs = 1 : i64} {
  // CHECK-NEXT: %t = loop.alloc "local" : memref<4x8xf32>
  // GENERIC: "loop.alloc"() <{scope = "local"}> : () -> memref<4x8xf32>
  %t = loop.alloc "local" : memref<4x8xf32>
  // CHECK-NEXT: %w = loop.alloc "shared" {loop.align = 64 : i64} : memref<2xf32>
  %w = loop.alloc "shared" {loop.align = 64 : i64} : memref<2xf32>
  // CHECK-NEXT: loop.for %i = 0 to 4 parallel {
  // GENERIC: "loop.for"() <{bounds = #te.map<"0, 4">, kind = "parallel"}> ({
  loop.for %i = 0 to 4 parallel {
    // CHECK-NEXT: loop.for %j = %i * 2 + 1 to %n - 3 {
    loop.for %j = 2 * %i + 1 to %n + (-3) {
      // CHECK-NEXT: loop.for %a = 0 to 2 unrolled {
      loop.for %a = 0 to 2 unrolled {
        // CHECK-NEXT: loop.for %b = 0 to 8 vectorized {
        loop.for %b = 0 to 8 vectorized {
        // CHECK-NEXT: } attributes {my.hint = "x"}
        } attributes {my.hint = "x"}
      }
    }
  }
  // CHECK: loop.for %g = 0 to 4 bind "blockIdx.x" {
  loop.for %g = 0 to 4 bind "blockIdx.x" {
  }
  // CHECK: loop.for %x = 0 to 4 {
  loop.for %x = 0 to 4 {
    loop.for %y = 0 to 10 {
      // CHECK: loop.block "row" (%v : 4 = %x, %u : 7 = %y floordiv 3) reduce (%r : 3 = (%y mod 3))
      // CHECK-SAME: where (-%y + 9) init {
      // GENERIC: "loop.block"(%x, %y) <{block_name = "row", extents = #te.map<"4, 7, 3">, spatial = 2 : i64, bindings = #te.map<"%0, %1 floordiv 3, (%1 mod 3)">, where = #te.map<"-%1 + 9">}> ({
      loop.block "row" (%v : 4 = %x, %u : 7 = %y floordiv 3) reduce (%r : 3 = %y mod 3) where (9 - %y) init {
      ^bb0(%v : index, %u : index, %r : index):
        %z = arith.constant 0.0 : f32
        loop.store %z, %C[%v, %u] : f32
      } {
        // CHECK: %e = loop.load %A[%v, %u + %r * 2 - 1] mask (%u + %r * 2 - 1, %v - 2) else %f : f32
        %f = arith.constant 1.0 : f32
        %e = loop.load %A[%v, %u + %r * 2 - 1] mask (%u + %r * 2 - 1, %v - 2) else %f : f32
        // CHECK-NEXT: loop.store %e, %C[%v, %u] mask (%r) : f32
        loop.store %e, %C[%v, %u] mask (%r) : f32
      // CHECK-NEXT: } attributes {my.tag}
      } attributes {my.tag}
    }
  }
}

// CHECK-LABEL: loop.func @tiles
loop.func @tiles(%A: memref<64x64xf32>, %I: memref<16xi64>, %C: memref<64x64xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  // CHECK: %zero = loop.broadcast %0 : f32 to vector<4x16xf32>
  %zero = loop.broadcast %0 : f32 to vector<4x16xf32>
  // CHECK-NEXT: %acc, %other = loop.for %k = 0 to 8 iter_args(%a = %zero, %b = %0) -> vector<4x16xf32>, f32 {
  %acc, %other = loop.for %k = 0 to 8 iter_args(%a = %zero, %b = %0) -> vector<4x16xf32>, f32 {
    // CHECK-NEXT: %l = loop.load %A[d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
    // GENERIC: "loop.load"(%A, %k) <{map = #te.map<"d0, %0">, tile = array<i64: 4, 16>}> : (memref<64x64xf32>, index) -> vector<4x1xf32>
    %l = loop.load %A[d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
    // CHECK: %r = loop.load %A[%k, d1 * 2 + 1] mask (-d1 + 14) else %row tile (d0 : 4, d1 : 16) : vector<1x16xf32>
    %row = loop.broadcast %b : f32 to vector<1x16xf32>
    %r = loop.load %A[%k, d1 * 2 + 1] mask (14 - d1) else %row tile (d0 : 4, d1 : 16) : vector<1x16xf32>
    // CHECK-NEXT: %n = loop.fma %l, %r, %a : vector<4x1xf32>, vector<1x16xf32>, vector<4x16xf32>
    %n = loop.fma %l, %r, %a : vector<4x1xf32>, vector<1x16xf32>, vector<4x16xf32>
    // CHECK-NEXT: loop.yield %n, %b : vector<4x16xf32>, f32
    loop.yield %n, %b : vector<4x16xf32>, f32
  }
  // CHECK: %row1 = loop.load %A[1, d1]
  %row0 = loop.load %A[0, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
  %row1 = loop.load %A[1, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
  // CHECK: %s = loop.reduce sum %acc axes [1] : vector<4x16xf32> to vector<4x1xf32>
  %s = loop.reduce sum %acc axes [1] : vector<4x16xf32> to vector<4x1xf32>
  // CHECK-NEXT: loop.store %s, %C[d0, 0] mask (-d0 + 2) tile (d0 : 4, d1 : 16) : vector<4x1xf32>
  loop.store %s, %C[d0, 0] mask (2 - d0) tile (d0 : 4, d1 : 16) : vector<4x1xf32>
  // CHECK-NEXT: %ix = loop.index d1 * 2 tile (d0 : 4, d1 : 16) : vector<1x16xindex>
  %ix = loop.index d1 * 2 tile (d0 : 4, d1 : 16) : vector<1x16xindex>
  // CHECK-NEXT: %g = loop.gather %A[d0, 1] by %ix at 1 tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  %g = loop.gather %A[d0, 1] by %ix at 1 tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  // CHECK-NEXT: %c = loop.compare olt %g, %acc : vector<4x16xf32>
  // GENERIC: "loop.compare"(%g, %acc) <{predicate = "olt"}> : (vector<4x16xf32>, vector<4x16xf32>) -> vector<4x16xi1>
  %c = loop.compare olt %g, %acc : vector<4x16xf32>
  // CHECK-NEXT: %v = loop.select %c, %g, %acc : vector<4x16xi1>, vector<4x16xf32>
  %v = loop.select %c, %g, %acc : vector<4x16xi1>, vector<4x16xf32>
  // CHECK-NEXT: %both = loop.concat %row0, %row1 axis 0 : vector<1x16xf32> to vector<2x16xf32>
  // GENERIC: "loop.concat"(%row0, %row1) <{axis = 0 : i64}> : (vector<1x16xf32>, vector<1x16xf32>) -> vector<2x16xf32>
  %both = loop.concat %row0, %row1 axis 0 : vector<1x16xf32> to vector<2x16xf32>
  // CHECK-NEXT: %one = loop.slice %both axis 0 at 1 : vector<2x16xf32> to vector<1x16xf32>
  // GENERIC: "loop.slice"(%both) <{axis = 0 : i64, at = 1 : i64}> : (vector<2x16xf32>) -> vector<1x16xf32>
  %one = loop.slice %both axis 0 at 1 : vector<2x16xf32> to vector<1x16xf32>
  // CHECK-NEXT: %h = loop.cast truncf %v : vector<4x16xf32> to vector<4x16xf16>
  %h = loop.cast truncf %v : vector<4x16xf32> to vector<4x16xf16>
  // CHECK-NEXT: %d = loop.load %A[0, 0] : f32 {my.nontemporal}
  %d = loop.load %A[0, 0] : f32 {my.nontemporal}
  // CHECK-NEXT: loop.store %d, %C[0, 0] : f32 {my.nontemporal}
  loop.store %d, %C[0, 0] : f32 {my.nontemporal}
}

// Equal expressions are one: (i floordiv 4) * 4 + i mod 4 == i.
// CHECK-LABEL: loop.func @expressions
loop.func @expressions(%A: memref<64xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      // CHECK: %a = loop.load %A[%i] : f32
      %a = loop.load %A[(%i floordiv 4) * 4 + %i mod 4] : f32
      // CHECK-NEXT: %b = loop.load %A[%j + %i * 2] : f32
      %b = loop.load %A[%j + 2 * %i + 3 - 3] : f32
      // CHECK-NEXT: %c = loop.load %A[(%i + %j) floordiv 2 + (%j mod 3) * 2] : f32
      %c = loop.load %A[(%i + %j) floordiv 2 + 2 * (%j mod 3)] : f32
      // CHECK-NEXT: %d = loop.load %A[%i + 1] : f32
      %d = loop.load %A[(4 * %i + 7) floordiv 4] : f32
    }
  }
}

// CHECK-LABEL: loop.func @contract_unsigned
loop.func @contract_unsigned(%A: memref<4x4xi8>, %B: memref<16x4xi8>, %C: memref<4x16xi32>) attributes {outputs = 1 : i64} {
  %a = loop.load %A[d0, d2] tile (d0 : 4, d1 : 16, d2 : 4) : vector<4x1x4xi8>
  %b = loop.load %B[d1, d2] tile (d0 : 4, d1 : 16, d2 : 4) : vector<1x16x4xi8>
  %c = loop.load %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xi32>
  // CHECK: %n = loop.contract %a unsigned, %b, %c : vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>
  %n = loop.contract %a unsigned, %b, %c : vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>
  loop.store %n, %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xi32>
}

// CHECK-LABEL: loop.func @contract
loop.func @contract(%A: memref<4x8xi8>, %B: memref<16x4xi8>, %C: memref<4x16xi32>) attributes {outputs = 1 : i64} {
  %a = loop.load %A[d0, d2] tile (d0 : 4, d1 : 16, d2 : 4) : vector<4x1x4xi8>
  %b = loop.load %B[d1, d2] tile (d0 : 4, d1 : 16, d2 : 4) : vector<1x16x4xi8>
  %c = loop.load %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xi32>
  // CHECK: %n = loop.contract %a, %b, %c : vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>
  // GENERIC: "loop.contract"(%a, %b, %c) : (vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>) -> vector<4x16xi32>
  %n = loop.contract %a, %b, %c : vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>
  loop.store %n, %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xi32>
}

// What may lie inside is accepted: under a condition, with a mask, in a loop that may be empty, where two axes of a
// block are one loop's index, and an index that is divided.
// CHECK-LABEL: @perhaps_inside
loop.func @perhaps_inside(%A: memref<64xf32>, %n: index, %c: i1) attributes {outputs = 1 : i64} {
  %f = arith.constant 1.0 : f32
  scf.if %c {
    // CHECK: loop.load %A[64]
    %a = loop.load %A[64] : f32
  }
  loop.for %i = 0 to 100 {
    // CHECK: mask (
    loop.store %f, %A[%i] mask (63 - %i) : f32
    // CHECK: loop.load %A[%i floordiv 2]
    %b = loop.load %A[%i floordiv 2] : f32
    loop.for %j = 0 to %n {
      // CHECK: loop.load %A[%i]
      %d = loop.load %A[%i] : f32
    }
    loop.block "b" (%v : 100 = %i, %w : 100 = %i) {
      // CHECK: loop.load %A[%v{{.*}} - %w
      %e = loop.load %A[%v - %w] : f32
    }
    loop.block "c" (%v : 100 = %i) where (63 - %i) {
      // CHECK: loop.load %A[%v
      %g = loop.load %A[%v] : f32
    }
  }
  loop.for %k = 70 to 70 {
    // CHECK: loop.load %A[%k]
    %h = loop.load %A[%k] : f32
  }
}
