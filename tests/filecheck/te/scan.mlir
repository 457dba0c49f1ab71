// RUN: mlc-opt %s | filecheck %s
// RUN: mlc-opt %s -p convert-te-to-loop --validate-each | filecheck %s --check-prefix=LOOP
// RUN: mlc-opt %s -p te-inline,te-add-schedule,convert-te-to-loop,loop-apply-schedule,loop-tiles --validate-each | filecheck %s --check-prefix=TILES

// CHECK-LABEL: te.func @sums
// CHECK:       te.scan "sums" (%h = %first) steps 16 : tensor<16x8xf32> {
// CHECK:         te.read %h[%t - 1, %i_1] : f32
// CHECK:         te.yield %u : tensor<16x8xf32>

// LOOP-LABEL: loop.func @sums(%x: memref<16x8xf32>, %s: memref<16x8xf32>)
// LOOP:       loop.block "first"
// LOOP:         loop.store %{{.*}}, %s[%vz, %vi]
// LOOP:       loop.for %step = 0 to 15 {
// LOOP:         loop.block "update" (%vt : 15 = %step, %vi_1 : 8 = %i_1) {
// LOOP:           loop.load %s[%vt, %vi_1]
// LOOP:           loop.load %x[%vt + 1, %vi_1]
// LOOP:           loop.store %{{.*}}, %s[%vt + 1, %vi_1]

// TILES-LABEL: loop.func @sums
// TILES:       loop.for %step = 0 to 15 {
// TILES:         loop.load %s[%step, d0] tile (d0 : 8) : vector<8xf32>
te.func @sums(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %first = te.compute "first" (%z : 1, %i : 8) {
    %0 = te.read %x[%z, %i] : f32
    te.yield %0 : f32
  } : tensor<1x8xf32>
  %s = te.scan "sums" (%h = %first) steps 16 : tensor<16x8xf32> {
    %u = te.compute "update" (%t : 16, %i : 8) {
      %0 = te.read %h[%t - 1, %i] : f32
      %1 = te.read %x[%t, %i] : f32
      %2 = arith.addf %0, %1 : f32
      te.yield %2 : f32
    } : tensor<16x8xf32>
    te.yield %u : tensor<16x8xf32>
  }
  te.return %s : tensor<16x8xf32>
}

// The first steps are an input, and a step's product needs the room of one step.
// CHECK-LABEL: te.func @states
// CHECK:       %a, %b = te.scan "both" (%p = %x, %q = %y) steps %n : tensor<?x4xf32>, tensor<?xf32> {

// LOOP-LABEL: loop.func @states
// LOOP:       loop.block "both_init" (%vi0 : 2 = %i0, %vi1 : 4 = %i1)
// LOOP:       loop.for %step = 0 to %n - 2 {
// LOOP:         loop.block "sum" (%vt : %n - 2 = %step) reduce (%vk : 4 = %k)
// LOOP:           loop.load %a[%vt, %vk]

// TILES-LABEL: loop.func @states
// TILES:       loop.for %step = 0 to %n - 2 {
te.func @states(%x: tensor<2x4xf32>, %y: tensor<2xf32>, %n: index) -> (tensor<?x4xf32>, tensor<?xf32>)
    attributes {sizes = [#te.map<"2, 4">, #te.map<"2">, #te.map<"%0, 4">, #te.map<"%0">], least = array<i64: 2>} {
  %a, %b = te.scan "both" (%p = %x, %q = %y) steps %n : tensor<?x4xf32>, tensor<?xf32> {
    %sum = te.compute "sum" (%t : %n) reduce (%k : 4) sum {
      %0 = te.read %p[%t - 2, %k] : f32
      te.yield %0 : f32
    } : tensor<?xf32>
    %u = te.compute "u" (%t : %n, %i : 4) {
      %0 = te.read %p[%t - 1, 3 - %i] : f32
      %1 = te.read %sum[%t] : f32
      %2 = arith.subf %0, %1 : f32
      te.yield %2 : f32
    } : tensor<?x4xf32>
    %v = te.compute "v" (%t : %n) {
      %0 = te.read %q[%t - 1] : f32
      %1 = te.read %u[%t, 0] : f32
      %2 = arith.maximumf %0, %1 : f32
      te.yield %2 : f32
    } : tensor<?xf32>
    te.yield %u, %v : tensor<?x4xf32>, tensor<?xf32>
  }
  te.return %a, %b : tensor<?x4xf32>, tensor<?xf32>
}
