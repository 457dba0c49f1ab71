// RUN: mlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

// An attribute that nobody reads is refused, on the ops of every dialect of mlc; a name with a prefix may stand anywhere.

func.func @near(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{unknown attribute 'axs' of graph.softmax; did you mean 'axis'?}}
  %0 = graph.softmax %x {axs = 0} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @generic_form(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{unknown attribute 'axs' of graph.softmax; did you mean 'axis'?}}
  %0 = "graph.softmax"(%x) {axs = 0} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @result_type(%x: tensor<4x4xf32>) -> tensor<2x8xf32> {
  // expected-error @below {{unknown attribute 'shape' of graph.reshape; the type after the colon says what its result is}}
  %0 = graph.reshape %x {shape = [4, 5]} : (tensor<4x4xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @none(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{unknown attribute 'alpha' of graph.relu; it has none; a name with a prefix, as in my.alpha}}
  %0 = graph.relu %x {alpha = 0.1} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

te.func @te(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = te.compute "y" (%i : 4) {
    %1 = te.read %x[%i] : f32
    te.yield %1 : f32
  // expected-error @below {{unknown attribute 'noinline' of te.compute; did you mean 'no_inline'?}}
  } : tensor<4xf32> {noinline}
  te.return %0 : tensor<4xf32>
}

// -----

loop.func @loop(%x: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
  // expected-error @below {{unknown attribute 'prefech' of loop.for; did you mean 'prefetch'?}}
  } attributes {prefech = 1}
}

// -----

loop.func @kind(%x: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
  // expected-error @below {{attribute 'kind' of loop.for has a place of its own in the text; write it there}}
  } attributes {kind = "parallel"}
}

// -----

sched.schedule @pragma {
  %b = sched.block "y" : !sched.block
  %i = sched.loops %b : 1
  // expected-error @below {{or a name with a prefix, but got 'prefech'; did you mean 'prefetch'?}}
  sched.pragma %i "prefech" = 1
}

// -----

sched.schedule @directive {
  %b = sched.block "y" : !sched.block
  %i = sched.loops %b : 1
  // expected-error @below {{unknown attribute 'factor' of sched.parallel; it has none}}
  sched.parallel %i {factor = 4}
}

// -----

// CHECK-LABEL: func.func @prefix
// CHECK: graph.softmax %x {axis = 0, my.note} : tensor<4x4xf32>
func.func @prefix(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "graph.softmax"(%x) {axis = 0, my.note} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
