// RUN: mlc-opt %s -p graph-outline-kernels --split-input-file | filecheck %s

// Names of symbols do not tell kernels apart, nor do expressions that are the only way in which symbols appear.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = graph.call @[[K:exp_[0-9a-f]*]](%x) {symbols = #graph.dims<[H floordiv 4]>}
// CHECK-NEXT:    %[[B:.*]] = graph.call @[[K]](%y) {symbols = #graph.dims<[N]>}
// CHECK-NEXT:    %[[C:.*]] = graph.call @[[K]](%z) {symbols = #graph.dims<[A * B]>}
// CHECK:       func.func private @[[K]](%{{.*}}: tensor<?x8xf32, #graph.dims<[s0]>>) -> tensor<?x8xf32, #graph.dims<[s0]>>
// CHECK-SAME:    graph.symbols = {s0 = #graph.symbol<1 to 2147483647 like 75>}
// CHECK-NOT:   private
// CHECK:       {{-----}}
func.func @main(%x: tensor<?x8xf32, #graph.dims<[H floordiv 4]>>, %y: tensor<?x8xf32, #graph.dims<[N]>>, %z: tensor<?x8xf32, #graph.dims<[A * B]>>)
    -> (tensor<?x8xf32, #graph.dims<[H floordiv 4]>>, tensor<?x8xf32, #graph.dims<[N]>>, tensor<?x8xf32, #graph.dims<[A * B]>>)
    attributes {graph.symbols = {H = #graph.symbol<4 to 2048 like 300>}} {
  %0 = graph.exp %x : tensor<?x8xf32, #graph.dims<[H floordiv 4]>>
  %1 = graph.exp %y : tensor<?x8xf32, #graph.dims<[N]>>
  %2 = graph.exp %z : tensor<?x8xf32, #graph.dims<[A * B]>>
  return %0, %1, %2 : tensor<?x8xf32, #graph.dims<[H floordiv 4]>>, tensor<?x8xf32, #graph.dims<[N]>>, tensor<?x8xf32, #graph.dims<[A * B]>>
}

// -----

// A number that divides a size stays, and what an op makes of a size follows from it.
// CHECK:       func.func private @{{exp_[0-9a-f]*}}(%{{.*}}: tensor<?xf32, #graph.dims<[s0 * 8]>>)
// CHECK:       func.func private @{{avg_pool2d_[0-9a-f]*}}(%{{.*}}: tensor<1x1x?x8xf32, #graph.dims<[s0]>>) -> tensor<1x1x?x4xf32, #graph.dims<[s0 floordiv 2]>>
// CHECK-SAME:    graph.symbols = {s0 = #graph.symbol<5 to 21 like 13>}
func.func @main(%x: tensor<?xf32, #graph.dims<[W * 8]>>, %y: tensor<1x1x?x8xf32, #graph.dims<[H * 2 + 1]>>)
    -> (tensor<?xf32, #graph.dims<[W * 8]>>, tensor<1x1x?x4xf32, #graph.dims<[H]>>)
    attributes {graph.symbols = {H = #graph.symbol<2 to 10 like 6>, W = #graph.symbol<1 to 9>}} {
  %0 = graph.exp %x : tensor<?xf32, #graph.dims<[W * 8]>>
  %1 = graph.avg_pool2d %y {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x1x?x8xf32, #graph.dims<[H * 2 + 1]>>) -> tensor<1x1x?x4xf32, #graph.dims<[H]>>
  return %0, %1 : tensor<?xf32, #graph.dims<[W * 8]>>, tensor<1x1x?x4xf32, #graph.dims<[H]>>
}

// -----

// Where a size is given and is not made of the operands' sizes as a whole, the kernel has the symbols themselves.
// CHECK:         graph.call @{{.*}}(%x) {symbols = #graph.dims<[H, W]>}
// CHECK:       func.func private @{{.*}}(%{{.*}}: tensor<?x4xf32, #graph.dims<[s0 * s1]>>) -> tensor<?x?x4xf32, #graph.dims<[s0, s1]>>
func.func @main(%x: tensor<?x4xf32, #graph.dims<[H * W]>>, %y: tensor<?x?xf32, #graph.dims<[H, W]>>) -> tensor<?x?x4xf32, #graph.dims<[H, W]>> {
  %1 = graph.fused "exp_reshape" (%a = %x : tensor<?x4xf32, #graph.dims<[H * W]>>) -> tensor<?x?x4xf32, #graph.dims<[H, W]>> {
    %2 = graph.exp %a : tensor<?x4xf32, #graph.dims<[H * W]>>
    %3 = graph.reshape %2 : (tensor<?x4xf32, #graph.dims<[H * W]>>) -> tensor<?x?x4xf32, #graph.dims<[H, W]>>
    graph.yield %3 : tensor<?x?x4xf32, #graph.dims<[H, W]>>
  }
  return %1 : tensor<?x?x4xf32, #graph.dims<[H, W]>>
}

// -----

// What a kernel of a symbol that says its ends knows of it, one of any size does not: they are two.
// CHECK:       func.func private @[[A:exp_[0-9a-f]*]](%{{.*}}: tensor<?x8xf32, #graph.dims<[s0<33 to 80>]>>)
// CHECK:       func.func private @{{exp_[0-9a-f]*}}(%{{.*}}: tensor<?x8xf32, #graph.dims<[s0]>>)
func.func @main(%x: tensor<?x8xf32, #graph.dims<[H<33 to 80>]>>) -> tensor<?x8xf32, #graph.dims<[H<33 to 80>]>>
    attributes {graph.symbols = {H = #graph.symbol<33 to 80>}} {
  %0 = graph.exp %x : tensor<?x8xf32, #graph.dims<[H<33 to 80>]>>
  return %0 : tensor<?x8xf32, #graph.dims<[H<33 to 80>]>>
}
func.func @other(%x: tensor<?x8xf32, #graph.dims<[H]>>) -> tensor<?x8xf32, #graph.dims<[H]>>
    attributes {graph.symbols = {H = #graph.symbol<1 to 4096>}} {
  %0 = graph.exp %x : tensor<?x8xf32, #graph.dims<[H]>>
  return %0 : tensor<?x8xf32, #graph.dims<[H]>>
}
