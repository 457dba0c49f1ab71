// RUN: mlc-opt %s | filecheck %s
// RUN: MLC_ROUNDTRIP

// CHECK-LABEL: llvm.func @memory
llvm.func @memory(%p : !llvm.ptr, %m : vector<16xi1>, %z : vector<16xf32>, %i : vector<16xi32>) {
  // CHECK: llvm_ext.masked_load %{{.+}}, %{{.+}}, %{{.+}} align 4 : vector<16xi1>, vector<16xf32>
  %a = llvm_ext.masked_load %p, %m, %z align 4 : vector<16xi1>, vector<16xf32>
  // CHECK-NEXT: llvm_ext.masked_store %{{.+}}, %{{.+}}, %{{.+}} : vector<16xf32>, vector<16xi1>
  llvm_ext.masked_store %a, %p, %m : vector<16xf32>, vector<16xi1>
  // CHECK-NEXT: llvm_ext.gather %{{.+}}[%{{.+}}], %{{.+}}, %{{.+}} : vector<16xi32>, vector<16xi1>, vector<16xf32>
  %b = llvm_ext.gather %p[%i], %m, %z : vector<16xi32>, vector<16xi1>, vector<16xf32>
  // CHECK-NEXT: llvm_ext.scatter %{{.+}}, %{{.+}}[%{{.+}}], %{{.+}} align 4 : vector<16xf32>, vector<16xi32>, vector<16xi1>
  llvm_ext.scatter %b, %p[%i], %m align 4 : vector<16xf32>, vector<16xi32>, vector<16xi1>
  // CHECK-NEXT: llvm_ext.prefetch %{{.+}} locality 3
  llvm_ext.prefetch %p locality 3
  // CHECK-NEXT: llvm_ext.prefetch %{{.+}} locality 0 write
  llvm_ext.prefetch %p locality 0 write
  llvm.return
}

// CHECK-LABEL: llvm.func @vectors
llvm.func @vectors(%s : f32, %k : i64, %v : vector<16xf32>, %h : vector<8xf16>) {
  // CHECK: llvm_ext.splat %{{.+}} : vector<16xf32>
  %a = llvm_ext.splat %s : vector<16xf32>
  // CHECK-NEXT: llvm_ext.extractelement %{{.+}}[%{{.+}}] : vector<16xf32>, i64
  %b = llvm_ext.extractelement %v[%k] : vector<16xf32>, i64
  // CHECK-NEXT: llvm_ext.poison : vector<16xf32>
  %c = llvm_ext.poison : vector<16xf32>
  // CHECK-NEXT: llvm_ext.cast "fptosi" %{{.+}} : vector<16xf32> to vector<16xi32>
  %d = llvm_ext.cast "fptosi" %v : vector<16xf32> to vector<16xi32>
  // CHECK-NEXT: llvm_ext.cast "bitcast" %{{.+}} : vector<8xf16> to vector<4xi32>
  %e = llvm_ext.cast "bitcast" %h : vector<8xf16> to vector<4xi32>
  llvm.return
}

// CHECK-LABEL: llvm.func @arithmetic
llvm.func @arithmetic(%x : vector<8xf32>, %y : vector<8xf32>, %c : i1) {
  // CHECK: llvm_ext.intrinsic "llvm.maxnum"(%{{.+}}, %{{.+}}) {fastmathFlags = #llvm.fastmath<nsz>} : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
  %a = llvm_ext.intrinsic "llvm.maxnum"(%x, %y) {fastmathFlags = #llvm.fastmath<nsz>} : (vector<8xf32>, vector<8xf32>) -> vector<8xf32>
  // CHECK-NEXT: llvm_ext.math "pow"(%{{.+}}, %{{.+}}) : vector<8xf32>
  %b = llvm_ext.math "pow"(%x, %y) : vector<8xf32>
  // CHECK-NEXT: llvm_ext.fcmp "olt" %{{.+}}, %{{.+}} : vector<8xf32>, vector<8xi1>
  %m = llvm_ext.fcmp "olt" %x, %y : vector<8xf32>, vector<8xi1>
  // CHECK-NEXT: llvm_ext.select %{{.+}}, %{{.+}}, %{{.+}} : vector<8xi1>, vector<8xf32>
  %d = llvm_ext.select %m, %x, %y : vector<8xi1>, vector<8xf32>
  // CHECK-NEXT: llvm_ext.select %{{.+}}, %{{.+}}, %{{.+}} : i1, vector<8xf32>
  %e = llvm_ext.select %c, %x, %y : i1, vector<8xf32>
  llvm.return
}

// CHECK-LABEL: llvm.func @synchronisation
llvm.func @synchronisation(%p : !llvm.ptr, %n : i32) {
  // CHECK: llvm_ext.atomicrmw "add" "seq_cst" %{{.+}}, %{{.+}} : i32
  %a = llvm_ext.atomicrmw "add" "seq_cst" %p, %n : i32
  // CHECK-NEXT: llvm_ext.fence "release"
  llvm_ext.fence "release"
  llvm.return
}
