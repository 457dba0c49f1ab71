// RUN: mlc-opt %s -p 'te-pad-queries{target=x86-64-v4}' | filecheck %s
// RUN: mlc-opt %s -p 'te-pad-queries{target=x86-64-v4}' --validate-each | filecheck %s --check-prefix=VALID
// RUN: mlc-opt %s -p 'te-pad-queries{target=x86-64-v4},te-add-schedule{target=x86-64-v4},convert-te-to-loop,loop-apply-schedule,loop-tiles' | filecheck %s --check-prefix=LOOP

// Blocks of 32 queries; the queries and the mask give zeros behind the last one, which the result leaves out.
// CHECK-LABEL: te.func @open
// CHECK:         te.compute "scores_queries" (%k : 8, %i : ((%n + 31) floordiv 32) * 32) {
// CHECK-NEXT:      arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      te.read %q[%i, %k] mask (-%i + %n - 1) else
// CHECK:         te.compute "scores" (%i_1 : ((%n + 31) floordiv 32) * 32, %j : %m) reduce (%k_1 : 8) sum {
// CHECK-NEXT:      te.read %queries[%k_1, %i_1] : f32
// CHECK-NEXT:      te.read %key[%j, %k_1] : f32
// CHECK:         te.compute "add"
// CHECK:           arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      te.read %mask[%{{.*}}] mask (
// CHECK:         te.compute "max" (%{{.*}} : ((%n + 31) floordiv 32) * 32) reduce (%{{.*}} : %m) max
// CHECK:         te.compute "mix_scaled" (%{{.*}} : %n, %{{.*}} : 16) {
// VALID:       te.func @open(%q: tensor<?x8xf32>, %key: tensor<?x8xf32>
// No block of scores is partial; the strips hold all keys of one block.
// LOOP-LABEL: loop.func @open
// LOOP:         loop.for %i_o = 0 to (%n + 31) floordiv 32 {
// LOOP:           loop.alloc "local" (%m) : memref<?x32xf32>
// LOOP-NOT:       %i_o_1
// LOOP:           loop.for %inside{{.*}} %i_o * 32
// LOOP:         loop.yield
te.func @open(%q: tensor<?x8xf32>, %key: tensor<?x8xf32>, %mask: tensor<?x?xf32>, %v: tensor<?x16xf32>, %n: index, %m: index) -> tensor<?x16xf32> attributes {sizes = [#te.map<"%0, 8">, #te.map<"%1, 8">, #te.map<"%0, %1">, #te.map<"%1, 16">, #te.map<"%0, 16">]} {
  %s = te.compute "scores" (%i : %n, %j : %m) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x?xf32>
  %add = te.compute "add" (%i : %n, %j : %m) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.read %mask[%i, %j] : f32
    %2 = arith.addf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x?xf32>
  %max = te.compute "max" (%i : %n) reduce (%k : %m) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<?xf32>
  %exp = te.compute "exp" (%i : %n, %j : %m) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<?x?xf32>
  %sum = te.compute "sum" (%i : %n) reduce (%k : %m) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<?xf32>
  %mix = te.compute "mix" (%i : %n, %d : 16) reduce (%k : %m) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x16xf32>
  %scaled = te.compute "mix_scaled" (%i : %n, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x16xf32>
  te.return %scaled : tensor<?x16xf32>
}

// Two products that no stage follows, and rows that are read as columns, stay as they are.
// CHECK-LABEL: te.func @bare
// CHECK-NOT:     floordiv
// CHECK:         te.return
te.func @bare(%q: tensor<?x8xf32>, %key: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> attributes {sizes = [#te.map<"%0, 8">, #te.map<"%0, 8">, #te.map<"%0, 8">]} {
  %s = te.compute "scores" (%i : %n, %j : %n) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x?xf32>
  %exp = te.compute "exp" (%i : %n, %j : %n) {
    %0 = te.read %s[%j, %i] : f32
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  } : tensor<?x?xf32>
  %mix = te.compute "mix" (%i : %n, %d : 8) reduce (%k : %n) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %key[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<?x8xf32>
  %out = te.compute "out" (%i : %n, %d : 8) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  } : tensor<?x8xf32>
  te.return %out : tensor<?x8xf32>
}
