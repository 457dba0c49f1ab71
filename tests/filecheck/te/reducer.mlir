// RUN: mlc-opt %s | filecheck %s
// RUN: mlc-opt %s -p convert-te-to-loop --validate-each | filecheck %s --check-prefix=LOOP
// RUN: mlc-opt %s -p te-add-schedule,convert-te-to-loop,loop-apply-schedule,loop-tiles --validate-each | filecheck %s --check-prefix=TILES

// CHECK-LABEL: te.func @least
// CHECK:       reduce (%k : 8) combine "lesser" (%a : f32, %m : i64, %b : f32, %n : i64) from (1.000000e+30 : f32, -1 : i64) {
// CHECK:         te.yield %d, %e : f32, i64

// LOOP-LABEL: loop.func @least
// LOOP:       loop.block "least" (%vi : 16 = %i) reduce (%vk : 8 = %k) combine {
// LOOP-NEXT:  ^bb0(%a: f32, %m: i64, %b: f32, %n: i64):
// LOOP:         loop.compare olt %b, %a
// LOOP:         loop.yield %d, %e : f32, i64
// LOOP:       } init {
// LOOP:         loop.store %{{.*}}, %v[%{{.*}}]
// LOOP:       } {
// LOOP:         loop.compare olt

// TILES-LABEL: loop.func @least
// TILES:       loop.for %k = 0 to 8 iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> vector<16xf32>, vector<16xi64> {
te.func @least(%x: tensor<8x16xf32>) -> (tensor<16xf32>, tensor<16xi64>) {
  %v, %p = te.compute "least" (%i : 16) reduce (%k : 8)
      combine "lesser" (%a : f32, %m : i64, %b : f32, %n : i64) from (1.0e+30 : f32, -1 : i64) {
    %c = arith.cmpf olt, %b, %a : f32
    %d = arith.select %c, %b, %a : f32
    %e = arith.select %c, %n, %m : i64
    te.yield %d, %e : f32, i64
  } {
    %0 = te.read %x[%k, %i] : f32
    %1 = arith.index_cast %k : index to i64
    te.yield %0, %1 : f32, i64
  } : tensor<16xf32>, tensor<16xi64>
  te.return %v, %p : tensor<16xf32>, tensor<16xi64>
}
