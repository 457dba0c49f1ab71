// RUN: mlc-opt %s --split-input-file --verify-diagnostics

llvm.func @f(%p : !llvm.ptr, %m : vector<8xi1>, %z : vector<16xf32>) {
  // expected-error @+1 {{expected mask to have type vector<16xi1>, but got vector<8xi1>}}
  %a = llvm_ext.masked_load %p, %m, %z : vector<8xi1>, vector<16xf32>
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr, %m : i1, %z : f32) {
  // expected-error @+1 {{expected value to be a one-dimensional vector, but got f32}}
  llvm_ext.masked_store %z, %p, %m : f32, i1
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr, %m : vector<16xi1>, %z : vector<16xf32>) {
  // expected-error @+1 {{expected align to be a power of two, but got 12}}
  llvm_ext.masked_store %z, %p, %m align 12 : vector<16xf32>, vector<16xi1>
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr, %i : vector<8xi32>, %m : vector<16xi1>, %z : vector<16xf32>) {
  // expected-error @+1 {{expected index to have as many lanes as vector<16xf32>, but got vector<8xi32>}}
  %a = llvm_ext.gather %p[%i], %m, %z : vector<8xi32>, vector<16xi1>, vector<16xf32>
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr, %i : vector<16xf32>, %m : vector<16xi1>, %z : vector<16xf32>) {
  // expected-error @+1 {{expected index to be a vector of integers, but got vector<16xf32>}}
  llvm_ext.scatter %z, %p[%i], %m : vector<16xf32>, vector<16xf32>, vector<16xi1>
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected the kind of cast to be one of trunc, zext}}
  %a = llvm_ext.cast "convert" %x : f32 to i32
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected the operand of sitofp to be integer, but got f32}}
  %a = llvm_ext.cast "sitofp" %x : f32 to f64
  llvm.return
}

// -----

llvm.func @f(%x : vector<8xf32>) {
  // expected-error @+1 {{expected the result to have as many lanes as vector<8xf32>, but got vector<4xi32>}}
  %a = llvm_ext.cast "fptosi" %x : vector<8xf32> to vector<4xi32>
  llvm.return
}

// -----

llvm.func @f(%x : i32) {
  // expected-error @+1 {{expected the result of sext to be wider than i32, but got i16}}
  %a = llvm_ext.cast "sext" %x : i32 to i16
  llvm.return
}

// -----

llvm.func @f(%x : i32) {
  // expected-error @+1 {{expected the result of bitcast to have 32 bits like i32, but got 64 in f64}}
  %a = llvm_ext.cast "bitcast" %x : i32 to f64
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected the name of an intrinsic to start with 'llvm.', but got 'fma'}}
  %a = llvm_ext.intrinsic "fma"(%x) : (f32) -> f32
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected the math function to be one of exp, exp_nonpositive, log, tanh, erf, sigmoid, sinh, cosh, pow, sin, cos, tan, asin, acos, atan, but got 'gamma'}}
  %a = llvm_ext.math "gamma"(%x) : f32
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected pow to have 2 operands, but got 1}}
  %a = llvm_ext.math "pow"(%x) : f32
  llvm.return
}

// -----

llvm.func @f(%x : i32) {
  // expected-error @+1 {{expected exp to have floats, but got i32}}
  %a = llvm_ext.math "exp"(%x) : i32
  llvm.return
}

// -----

llvm.func @f(%x : f32) {
  // expected-error @+1 {{expected the predicate to be one of false, oeq}}
  %a = llvm_ext.fcmp "lt" %x, %x : f32, i1
  llvm.return
}

// -----

llvm.func @f(%x : i32) {
  // expected-error @+1 {{expected fcmp to compare floats, but got i32; use llvm.icmp for integers}}
  %a = llvm_ext.fcmp "olt" %x, %x : i32, i1
  llvm.return
}

// -----

llvm.func @f(%x : vector<8xf32>) {
  // expected-error @+1 {{expected the result to have type vector<8xi1>, but got i1}}
  %a = llvm_ext.fcmp "olt" %x, %x : vector<8xf32>, i1
  llvm.return
}

// -----

llvm.func @f(%c : vector<4xi1>, %x : vector<8xf32>) {
  // expected-error @+1 {{expected the condition to have type vector<8xi1>, but got vector<4xi1>}}
  %a = llvm_ext.select %c, %x, %x : vector<4xi1>, vector<8xf32>
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr, %n : i32) {
  // expected-error @+1 {{expected the kind of atomicrmw to be one of xchg, add}}
  %a = llvm_ext.atomicrmw "mul" "seq_cst" %p, %n : i32
  llvm.return
}

// -----

llvm.func @f() {
  // expected-error @+1 {{expected the ordering of a fence to be one of acquire, release, acq_rel, seq_cst, but got 'monotonic'}}
  llvm_ext.fence "monotonic"
  llvm.return
}

// -----

llvm.func @f(%p : !llvm.ptr) {
  // expected-error @+1 {{expected locality to be 0 to 3, but got 4}}
  llvm_ext.prefetch %p locality 4
  llvm.return
}
