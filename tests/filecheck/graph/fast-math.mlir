// RUN: mlc-opt %s -p graph-fast-math | filecheck %s

// CHECK-LABEL: func.func @tanh
// CHECK:         %[[T:.*]] = graph.clip %x {min = -7.0, max = 7.0}
// CHECK-NEXT:    %[[Z:.*]] = graph.multiply %[[T]], %[[T]]
// CHECK-NOT:     graph.tanh
// CHECK:         graph.divide
// CHECK-NEXT:    return
func.func @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @exp
// CHECK:         %[[N:.*]] = graph.round
// CHECK:         %[[I:.*]] = graph.cast %[[N]] : (tensor<4xf32>) -> tensor<4xi32>
// CHECK:         graph.shift_left
// CHECK-NEXT:    %[[P:.*]] = graph.bitcast
// CHECK-NEXT:    %[[E:.*]] = graph.multiply %{{.*}}, %[[P]]
// CHECK-NEXT:    return %[[E]]
func.func @exp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Other floats, and ops without an approximation.
// CHECK-LABEL: func.func @others
// CHECK-NEXT:    graph.tanh %x
// CHECK-NEXT:    graph.softmax %y
// CHECK-NEXT:    graph.sqrt %y
// CHECK-NEXT:    return
func.func @others(%x: tensor<4xf16>, %y: tensor<4xf32>) -> (tensor<4xf16>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.tanh %x : tensor<4xf16>
  %1 = graph.softmax %y : tensor<4xf32>
  %2 = graph.sqrt %y : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf16>, tensor<4xf32>, tensor<4xf32>
}

// What is made of tanh and erf: no op of its own is left.
// CHECK-LABEL: func.func @activations
// CHECK-NOT:     graph.{{erf|gelu|sigmoid|silu|tanh}}
// CHECK-COUNT-4: graph.divide
// CHECK-NOT:     graph.{{erf|gelu|sigmoid|silu|tanh|divide}}
// CHECK:         return
func.func @activations(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.erf %x : tensor<4xf32>
  %1 = graph.gelu %x : tensor<4xf32>
  %2 = graph.sigmoid %x : tensor<4xf32>
  %3 = graph.silu %x : tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
