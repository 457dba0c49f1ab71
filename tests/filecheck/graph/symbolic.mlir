// RUN: MLC_ROUNDTRIP
// RUN: mlc-opt %s --split-input-file | filecheck %s

// Sizes are kept in one canonical form.
// CHECK-LABEL: func.func @canonical_form(
// CHECK-SAME: #graph.dims<[H + H * W, (H + 1) floordiv 2, (H + 3) floordiv 4, H, ((H + 1) floordiv 2) * 2]>
func.func @canonical_form(%x: tensor<?x?x?x?x?xf32, #graph.dims<[H * (W + 1), (2 * H + 2) floordiv 4, ((H + 1) floordiv 2 + 1) floordiv 2, H + W - W, H - H mod 2 + (H mod 2) * 2 + (H + 1 - (H + 1) mod 2) - H - (H mod 2)]>>) {
  return
}

// -----

// A symbol may say its ends, which decide divisions.
// CHECK-LABEL: func.func @ends(
// CHECK-SAME: tensor<?x?x?x1xf32, #graph.dims<[H<33 to 80>, (H<33 to 80> + 1) floordiv 2, N]>>
func.func @ends(%x: tensor<?x?x?x1xf32, #graph.dims<[H<33 to 80>, (H<33 to 80> + 1) floordiv 2, N * ((H<33 to 80> + 15) floordiv 48)]>>) {
  return
}

// -----

// Every op infers symbolic sizes, and the verifier compares expressions, not text.
// CHECK-LABEL: func.func @inference(
// CHECK: graph.conv2d {{.*}} -> tensor<?x8x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>
// CHECK: graph.concatenate {{.*}} -> tensor<?x16x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>
// CHECK: graph.reshape {{.*}} -> tensor<?x?xf32, #graph.dims<[batch, ((H + 1) floordiv 2) * W * 16]>>
func.func @inference(%x: tensor<?x3x?x?xf32, #graph.dims<[batch, H, W]>>, %w: tensor<8x3x3x3xf32>) {
  %0 = graph.conv2d %x, %w {strides = [2, 1], padding = [1, 1, 1, 1]} : (tensor<?x3x?x?xf32, #graph.dims<[batch, H, W]>>, tensor<8x3x3x3xf32>) -> tensor<?x8x?x?xf32, #graph.dims<[batch, (H - 1) floordiv 2 + 1, W]>>
  %1 = graph.concatenate %0, %0 {axis = 1} : (tensor<?x8x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>, tensor<?x8x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>) -> tensor<?x16x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>
  %2 = graph.reshape %1 : (tensor<?x16x?x?xf32, #graph.dims<[batch, (H + 1) floordiv 2, W]>>) -> tensor<?x?xf32, #graph.dims<[batch, 16 * ((H + 1) floordiv 2) * W]>>
  return
}

// -----

// What divides a symbol is known from its step: for even H, (H + 1) floordiv 2 is H floordiv 2.
// CHECK-LABEL: func.func @divisors(
// CHECK: graph.symbols = {H = #graph.symbol<32 to 2048 step 32>, N = #graph.symbol<1 to 64>}
func.func @divisors(%x: tensor<?x3x?x4xf32, #graph.dims<[N, H]>>) -> tensor<?x3x?x2xf32, #graph.dims<[N, H floordiv 2]>> attributes {graph.symbols = {H = #graph.symbol<32 to 2048 step 32>, N = #graph.symbol<1 to 64 step 1>}} {
  %0 = graph.max_pool2d %x {pool_size = [3, 3], strides = [2, 2], padding = [1, 1, 1, 1]} : (tensor<?x3x?x4xf32, #graph.dims<[N, H]>>) -> tensor<?x3x?x2xf32, #graph.dims<[N, H floordiv 2]>>
  return %0 : tensor<?x3x?x2xf32, #graph.dims<[N, H floordiv 2]>>
}
