// RUN: mlc-opt %s --split-input-file --verify-diagnostics

func.func @f( { // expected-error {{expected an argument, %name: type, or a type, but got}}
}

// -----

func.func @unknown_op() {
  "nobody.knows"() : () -> () // expected-error {{operation 'nobody.knows' is not registered}}
}

// -----

// expected-error@+1 {{'nobody.type' is not registered}}
func.func @unknown_type(%a: !nobody.type) {
  func.return
}

// -----

func.func @redefined(%a: i32) {
  %a = arith.constant 1 : i32 // expected-error {{SSA value %a is already defined}}
  func.return
}

// -----

// expected-error@below {{Redefinition of symbol "twice"}}
module {
func.func @twice() {
  func.return
}
func.func @twice() {
  func.return
}
}

// -----

func.func @two_types(%a: i32) -> i64 {
  %0 = arith.addi %a, %a : i64 // expected-error {{operand is used with type i64, but has been previously}}
  func.return %0 : i64
}

// -----

func.func @no_terminator(%a: i32) {
  %0 = arith.addi %a, %a : i32 // expected-error {{ends a block, but is not a terminator}}
}

// -----

// expected-error@+1 {{expects a terminator}}
"func.func"() ({
^entry:
}) {sym_name = "empty_block", function_type = () -> ()} : () -> ()

// -----

func.func @terminator_in_the_middle() {
  cf.br ^next // expected-error {{with successors must be the last operation of a block}}
  func.return
^next:
  func.return
}

// -----

func.func @dangling_block() {
  cf.br ^nowhere // expected-error {{missing block declarations}}
}

// -----

// A name close to one that exists.
func.func @near(%a: i32) {
  %0 = arith.adddi %a, %a : i32 // expected-error {{operation 'arith.adddi' is not registered; did you mean 'arith.addi'?}}
}

// -----

func.func @huge_constant() {
  // expected-error@+1 {{expected a constant of at most 16777216 elements, but got 999999999999}}
  %0 = arith.constant dense<0> : tensor<999999999999xi32>
  func.return
}

// -----

// expected-error@+1 {{expected at most 32 dimensions, but got 33}}
%0 = "test.op"() : () -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>

// -----

func.func @string() {
  // expected-error@+1 {{End of file reached before closing string literal}}
  "unclosed
}

// -----

// expected-error@+1 {{expected a size of at least 0, or `?` for one that is not known, but got -2}}
func.func @negative_size(%x: tensor<-2x8xf32>) {
  return
}

// -----

// expected-error@+1 {{expected a size of at least 0, or `?` for one that is not known, but got -8}}
func.func @negative_second_size(%x: memref<2x-8xf32>) {
  return
}

// -----

// expected-error@+1 {{expected a size, `?` or an element type, but got 'float32'}}
func.func @element_type(%x: tensor<4xfloat32>) {
  return
}

// -----

// expected-error@+1 {{expected 'x' between the sizes of a shape, but got ','}}
func.func @comma(%x: tensor<4,f32>) {
  return
}

// -----

// expected-error@+1 {{expected the name of a symbol, @name, but got 'f'}}
func.func f(%x: tensor<4xf32>) {
  return
}

// -----

func.func @no_operation() {
  // expected-error@+1 {{expected an operation, or '}', which closes the region that begins at 137:27, but got '5'}}
  5
}

// -----

func.func @constant_of_a_number() {
  // expected-error@+1 {{expected a value like dense<0.0> : tensor<2xf32>}}
  %0 = graph.constant 1.0 : tensor<4xf32>
  return
}

// -----

func.func @attribute_of_another_name(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected attribute 'axes' of graph.transpose, but got 'perm'}}
  %0 = graph.transpose %x {perm = [1, 0]} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

// expected-error@+1 {{expected #graph.dims to name the 1 sizes left as '?', but got tensor<?x8xf32, #graph.dims<[N, M]>>}}
func.func @too_many_names(%x: tensor<?x8xf32, #graph.dims<[N, M]>>) {
  return
}

// -----

loop.func @kind_of_loop(%x: memref<4xf32>) attributes {outputs = 1} {
  // expected-error@+1 {{expected a kind of loop (serial, parallel, vectorized, unrolled, bind "axis"), but got 'paralel'; did you mean 'parallel'?}}
  loop.for %i = 0 to 4 paralel {
  }
}

// -----

te.func @combiner_without_axes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected the axes that 'sum' reduces, `reduce (%k : 8) sum`, before it}}
  %0 = te.compute "y" (%i : 4) sum {
  } : tensor<4xf32>
}

// -----

sched.schedule @not_closed {
  %c = sched.block "x" : !sched.block
// expected-error@below {{expected '}', which closes the region that begins at 183:28, but got the end of the text}}
