// RUN: mlc-opt %s --pass-pipeline=canonicalize,cse | filecheck %s

// What computes a value that nobody uses goes.
// CHECK-LABEL: llvm.func @unused
// CHECK-NEXT:    llvm.return
// CHECK-NEXT:  }
llvm.func @unused(%s : f32, %k : i64, %v : vector<8xf32>, %m : vector<8xi1>, %p : !llvm.ptr) {
  %a = llvm_ext.splat %s : vector<8xf32>
  %b = llvm_ext.extractelement %v[%k] : vector<8xf32>, i64
  %c = llvm_ext.poison : vector<8xf32>
  %d = llvm_ext.cast "fptosi" %v : vector<8xf32> to vector<8xi32>
  %e = llvm_ext.math "exp"(%v) : vector<8xf32>
  %f = llvm_ext.fcmp "olt" %v, %v : vector<8xf32>, vector<8xi1>
  %g = llvm_ext.select %m, %v, %v : vector<8xi1>, vector<8xf32>
  %h = llvm_ext.masked_load %p, %m, %v : vector<8xi1>, vector<8xf32>
  llvm.return
}

// What writes, orders or prefetches memory stays; an intrinsic may do anything.
// CHECK-LABEL: llvm.func @effects
// CHECK-NEXT:    llvm_ext.masked_store
// CHECK-NEXT:    llvm_ext.scatter
// CHECK-NEXT:    llvm_ext.atomicrmw "add" "seq_cst"
// CHECK-NEXT:    llvm_ext.fence "release"
// CHECK-NEXT:    llvm_ext.prefetch
// CHECK-NEXT:    llvm_ext.intrinsic "llvm.assume"
// CHECK-NEXT:    llvm.return
llvm.func @effects(%p : !llvm.ptr, %v : vector<8xf32>, %m : vector<8xi1>, %i : vector<8xi32>, %n : i32, %c : i1) {
  llvm_ext.masked_store %v, %p, %m : vector<8xf32>, vector<8xi1>
  llvm_ext.scatter %v, %p[%i], %m : vector<8xf32>, vector<8xi32>, vector<8xi1>
  %old = llvm_ext.atomicrmw "add" "seq_cst" %p, %n : i32
  llvm_ext.fence "release"
  llvm_ext.prefetch %p locality 3
  llvm_ext.intrinsic "llvm.assume"(%c) : (i1) -> ()
  llvm.return
}

// Of equal pure ops one is left; a load behind a store is read again.
// CHECK-LABEL: llvm.func @equal
// CHECK-NEXT:    %[[S:.*]] = llvm_ext.splat %{{.*}} : vector<8xf32>
// CHECK-NEXT:    llvm_ext.masked_load
// CHECK-NEXT:    llvm_ext.masked_store %[[S]]
// CHECK-NEXT:    llvm_ext.masked_load
// CHECK-NEXT:    llvm.fadd
llvm.func @equal(%s : f32, %p : !llvm.ptr, %m : vector<8xi1>) -> vector<8xf32> {
  %a = llvm_ext.splat %s : vector<8xf32>
  %b = llvm_ext.splat %s : vector<8xf32>
  %x = llvm_ext.masked_load %p, %m, %a : vector<8xi1>, vector<8xf32>
  llvm_ext.masked_store %b, %p, %m : vector<8xf32>, vector<8xi1>
  %y = llvm_ext.masked_load %p, %m, %b : vector<8xi1>, vector<8xf32>
  %r = llvm.fadd %x, %y : vector<8xf32>
  llvm.return %r : vector<8xf32>
}
