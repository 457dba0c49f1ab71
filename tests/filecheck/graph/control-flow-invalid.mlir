// RUN: mlc-opt %s --split-input-file --verify-diagnostics

func.func @branches(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error@+1 {{expected both regions to yield (tensor<4xf32>), but got ()}}
  %0 = graph.if %c : tensor<i1> reads(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    graph.yield
  }
  return
}

// -----

func.func @condition(%c: tensor<1xi1>) {
  // expected-error@+1 {{expected a condition of type tensor<i1>, but got tensor<1xi1>}}
  graph.if %c : tensor<1xi1> -> () {
    graph.yield
  } else {
    graph.yield
  }
  return
}

// -----

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a region with arguments (tensor<i64>, tensor<4xf32>), as the operands imply, but got (tensor<4xf32>)}}
  %0, %n = graph.loop at_most 3 carried(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @endless() {
  // expected-error@+1 {{expected a loop that ends, but got no at_most, no limit and no condition}}
  %n = graph.loop at_most -1 -> (tensor<i64>) {
  ^bb0(%i: tensor<i64>):
    graph.yield
  }
  return
}

// -----

func.func @unbounded_rows(%m: tensor<i64>) {
  // expected-error@+1 {{expected at_most to bound a loop that stacks rows, but it does not; give it a bound}}
  %rows, %n = graph.loop at_most -1 limit(%m : tensor<i64>) -> (tensor<4xi64>, tensor<i64>) {
  ^bb0(%i: tensor<i64>):
    graph.yield %i : tensor<i64>
  }
  return
}

// -----

func.func @goes_on(%c: tensor<i1>) {
  // expected-error@+1 {{expected the condition, of type tensor<i1>, to be yielded first}}
  %n = graph.loop at_most -1 while(%c : tensor<i1>) -> (tensor<i64>) {
  ^bb0(%i: tensor<i64>):
    graph.yield
  }
  return
}

// -----

func.func @limit(%m: tensor<i32>) {
  // expected-error@+1 {{expected a limit of type tensor<i64>, but got tensor<i32>}}
  %n = graph.loop at_most -1 limit(%m : tensor<i32>) -> (tensor<i64>) {
  ^bb0(%i: tensor<i64>):
    graph.yield
  }
  return
}

// -----

func.func @carried(%x: tensor<4xf32>, %h: tensor<3xf32>) {
  // expected-error@+1 {{expected the region to yield what is carried, (tensor<3xf32>), but got (tensor<f32>)}}
  %0 = graph.scan carried(%h : tensor<3xf32>) rows(%x : tensor<4xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<3xf32>, %r: tensor<f32>):
    graph.yield %r : tensor<f32>
  }
  return
}

// -----

func.func @lengths(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error@+1 {{expected scanned values with one number of rows, but got (tensor<4xf32>, tensor<5xf32>)}}
  graph.scan rows(%x, %y : tensor<4xf32>, tensor<5xf32>) -> () {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    graph.yield
  }
  return
}

// -----

func.func @flags(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected backward to have 1 flags, one for each scanned value and stacked result, but got 2}}
  graph.scan backward [true, false] rows(%x : tensor<4xf32>) -> () {
  ^bb0(%a: tensor<f32>):
    graph.yield
  }
  return
}

// -----

func.func @results(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected results of types (tensor<4xf32>), as the regions imply, but got (tensor<3xf32>)}}
  %0 = graph.scan rows(%x : tensor<4xf32>) -> (tensor<3xf32>) {
  ^bb0(%a: tensor<f32>):
    graph.yield %a : tensor<f32>
  }
  return
}
