// RUN: mlc-opt %s -p 'convert-graph-to-te' | filecheck %s --check-prefix TE
// RUN: mlc-opt %s -p 'convert-graph-to-te,te-add-schedule{threads=2},convert-te-to-loop' | filecheck %s --check-prefix LOOP
// RUN: mlc-opt %s -p 'convert-graph-to-te,te-add-schedule{target=x86-64-v4},convert-te-to-loop,loop-apply-schedule,loop-tiles' | filecheck %s --check-prefix TILES

// A symbol becomes an argument of the kernel; extents and bounds are over it, and `sizes` gives the shapes.
// TE: te.func @exp(%x: tensor<?x70xf32>, %N: index) -> tensor<?x70xf32>
// TE-SAME: sizes = [#te.map<"%0, 70">, #te.map<"%0, 70">]
// TE: te.compute "exp" (%i0 : %N, %i1 : 70)

// LOOP: loop.for %i0 = 0 to %N {
// LOOP: loop.block "exp" (%vi0 : %N = %i0, %vi1 : 70 = %i1)

// Tiles are static; the last one is masked, in a loop of its own.
// TILES: loop.for %i0_i1_o = 0 to (%N * 35) floordiv 32 {
// TILES-NOT: mask
// TILES: loop.for %i0_i1_o_1 = (%N * 35) floordiv 32 to (%N * 35 + 31) floordiv 32 {
// TILES: loop.store {{.*}} mask (-d0 + %N * 70 - %i0_i1_o_1 * 64 - 1)
func.func private @exp(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>>
    attributes {graph.kernel} {
  %0 = graph.exp %x : tensor<?x70xf32, #graph.dims<[N]>>
  return %0 : tensor<?x70xf32, #graph.dims<[N]>>
}
