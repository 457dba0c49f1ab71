// RUN: mlc-opt %s -p "graph-dynamic-to-static{sizes=N:4,H:8}" | filecheck %s
// RUN: mlc-opt %s -p graph-dynamic-to-static | filecheck %s --check-prefix=ONE
// RUN: mlc-opt %s -p "graph-dynamic-to-static{sizes=N:65}" 2>&1 | filecheck %s --check-prefix=RANGE; true
// RUN: mlc-opt %s -p "graph-dynamic-to-static{sizes=H:6}" 2>&1 | filecheck %s --check-prefix=STEP; true
// RUN: mlc-opt %s -p "graph-dynamic-to-static{sizes=M:6}" 2>&1 | filecheck %s --check-prefix=NAME; true
// RUN: mlc-opt %s -p "graph-dynamic-to-static{sizes=N}" 2>&1 | filecheck %s --check-prefix=FORM; true

// RANGE: expected the size of N in 1 to 64, but got 65
// STEP:  expected the size of H in 4 to 64 step 4, but got 6
// NAME:  expected sizes of symbols of the module, but got 'M'
// FORM:  expected sizes like 'N:4', but got 'N'

// CHECK-LABEL: func.func @main(%x: tensor<4x8xf32>) -> tensor<36xf32> {
// CHECK-NEXT:    %[[P:.*]] = graph.pad %x {pad_width = [0, 0, 1, 0]} : (tensor<4x8xf32>) -> tensor<4x9xf32>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[P]] : (tensor<4x9xf32>) -> tensor<36xf32>
// CHECK-NEXT:    return %[[R]]
// ONE-LABEL:   func.func @main(%x: tensor<?x?xf32, #graph.dims<[N, H]>>)
func.func @main(%x: tensor<?x?xf32, #graph.dims<[N, H]>>) -> tensor<?xf32, #graph.dims<[N * H + N]>>
    attributes {graph.symbols = {N = #graph.symbol<1 to 64>, H = #graph.symbol<4 to 64 step 4>}} {
  %0 = graph.pad %x {pad_width = [0, 0, 1, 0]} : (tensor<?x?xf32, #graph.dims<[N, H]>>) -> tensor<?x?xf32, #graph.dims<[N, H + 1]>>
  %1 = graph.reshape %0 : (tensor<?x?xf32, #graph.dims<[N, H + 1]>>) -> tensor<?xf32, #graph.dims<[N * H + N]>>
  return %1 : tensor<?xf32, #graph.dims<[N * H + N]>>
}

// A symbol of one possible size is that size without being told; the other stays.
// ONE-LABEL: func.func @one
// ONE-SAME:    (%x: tensor<3x?xf32, #graph.dims<[H]>>)
// ONE-SAME:    graph.symbols = {H = #graph.symbol<4 to 64 step 4>}
func.func @one(%x: tensor<?x?xf32, #graph.dims<[B, H]>>) -> tensor<?x?xf32, #graph.dims<[B, H]>>
    attributes {graph.symbols = {B = #graph.symbol<3 to 3>, H = #graph.symbol<4 to 64 step 4>}} {
  %0 = graph.relu %x : tensor<?x?xf32, #graph.dims<[B, H]>>
  return %0 : tensor<?x?xf32, #graph.dims<[B, H]>>
}
