// RUN: mlc-opt %s --emit=llvm-ir | filecheck %s

// CHECK-DAG: @table = private constant [4 x i8] c"\01\02\03\FF", align 64
llvm.mlir.global private constant @table(dense<[1, 2, 3, -1]> : tensor<4xi8>) {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<4 x i8>
// CHECK-DAG: @weights = internal global [2 x [2 x float]] {{\[}}[2 x float] [float 0x3FF0000000000000, float 0x4000000000000000]
llvm.mlir.global internal @weights(dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>) {addr_space = 0 : i32} : !llvm.array<2 x !llvm.array<2 x f32>>

// CHECK-LABEL: define i64 @sum(ptr noalias align 64 %a0, i64 %a1)
llvm.func @sum(%p : !llvm.ptr {llvm.noalias, llvm.align = 64 : i64}, %n : i64) -> i64 {
  %zero = llvm.mlir.constant(0) : i64
  %one = llvm.mlir.constant(1) : i64
  // CHECK: br label %b1
  llvm.br ^loop(%zero, %zero : i64, i64)
// CHECK: b1:
// CHECK-NEXT: [[I:%v[0-9]+]] = phi i64 [0, %b0], [[[NEXT:%v[0-9]+]], %b1]
// CHECK-NEXT: [[S:%v[0-9]+]] = phi i64 [0, %b0], [[[SUM:%v[0-9]+]], %b1]
^loop(%i : i64, %s : i64):
  // CHECK-NEXT: [[P:%v[0-9]+]] = getelementptr inbounds i64, ptr %a0, i64 [[I]]
  %at = llvm.getelementptr inbounds %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  // CHECK-NEXT: [[V:%v[0-9]+]] = load i64, ptr [[P]], align 8, !invariant.load !0
  %v = llvm.load %at {alignment = 8 : i64, invariant} : !llvm.ptr -> i64
  // CHECK-NEXT: [[SUM]] = add i64 [[S]], [[V]]
  %sum = llvm.add %s, %v : i64
  // CHECK-NEXT: [[NEXT]] = add nuw nsw i64 [[I]], 1
  %next = llvm.add %i, %one overflow<nsw, nuw> : i64
  %more = llvm.icmp "slt" %next, %n : i64
  // CHECK: br i1 {{.*}}, label %b1, label %b2, !llvm.loop !2
  llvm.cond_br %more, ^loop(%next, %sum : i64, i64), ^end {no_unroll}
^end:
  llvm.return %sum : i64
}

// CHECK-LABEL: define internal void @vectors
llvm.func internal @vectors(%p : !llvm.ptr, %s : f32, %v : vector<16xf32>, %b : bf16) {
  // CHECK: [[T:%t[0-9]+]] = insertelement <16 x float> poison, float %a1, i64 0
  // CHECK-NEXT: [[A:%v[0-9]+]] = shufflevector <16 x float> [[T]], <16 x float> poison, <16 x i32> zeroinitializer
  %a = llvm_ext.splat %s : vector<16xf32>
  // CHECK-NEXT: call nsz <16 x float> @llvm.maxnum.v16f32(<16 x float> [[A]], <16 x float> %a2)
  %c = llvm_ext.intrinsic "llvm.maxnum"(%a, %v) {fastmathFlags = #llvm.fastmath<nsz>} : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>
  // CHECK-NEXT: call float @llvm.vector.reduce.fmax.v16f32(<16 x float>
  %d = llvm_ext.intrinsic "llvm.vector.reduce.fmax"(%c) : (vector<16xf32>) -> f32
  // CHECK-NEXT: call <16 x float> @mlc.sigmoid.v16f32(<16 x float>
  %e = llvm_ext.math "sigmoid"(%c) : vector<16xf32>
  // CHECK-NEXT: fadd <16 x float> {{.*}}, splat (float 0x3FF0000000000000)
  %one = llvm.mlir.constant(dense<1.0> : vector<16xf32>) : vector<16xf32>
  %f = llvm.fadd %e, %one : vector<16xf32>
  // A vector without an alignment has its element's.
  // CHECK-NEXT: store <16 x float> {{.*}}, ptr %a0, align 4
  llvm.store %f, %p : vector<16xf32>, !llvm.ptr
  // CHECK-NEXT: fpext bfloat %a3 to float
  %g = llvm.fpext %b : bf16 to f32
  llvm.return
}

// CHECK-LABEL: define i32 @calls
llvm.func @calls(%f : !llvm.ptr, %x : i32) -> i32 {
  // CHECK: call i32 %a0(i32 %a1)
  %a = llvm.call %f(%x) : !llvm.ptr, (i32) -> i32
  // CHECK-NEXT: call i32 @other(i32 %a1)
  %b = llvm.call @other(%x) : (i32) -> i32
  // CHECK-NEXT: ret i32
  llvm.return %b : i32
}
llvm.func @other(i32) -> i32

// The prelude comes once; intrinsics are declared.
// CHECK: define internal <16 x float> @mlc.sigmoid.v16f32
// CHECK-DAG: declare i32 @other(i32)
// CHECK-DAG: declare <16 x float> @llvm.maxnum.v16f32(<16 x float>, <16 x float>)
// CHECK: attributes #0 = { nounwind
// CHECK: !2 = distinct !{!2, !1}
