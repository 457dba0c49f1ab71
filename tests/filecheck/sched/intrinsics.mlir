// RUN: mlc-opt %s -p loop-apply-schedule | filecheck %s
// RUN: mlc-opt %s | mlc-opt | filecheck %s --check-prefix TEXT

// What @emits does stands in the block, at the places of the kernel's buffers; the declaration is gone.
// TEXT:      sched.intrinsic "double" requires ["avx2"] {
// TEXT-NEXT:   loop.func @means(%x: memref<8xf32>, %y: memref<8xf32>)
// TEXT:        loop.func @emits
// TEXT:          loop.intrinsic "llvm.fabs.v8f32" requires ["avx2"] %{{.*}} : vector<8xf32> as vector<8xf32> {
// TEXT-NEXT:     ^bb0(%{{.*}}: vector<8xf32>):
sched.intrinsic "double" requires ["avx2"] {
  loop.func @means(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
    loop.for %i = 0 to 8 { loop.block "d" (%v : 8 = %i) {
      %0 = loop.load %x[%v] : f32
      %1 = math.absf %0 : f32
      loop.store %1, %y[%v] : f32
    } }
  }
  loop.func @emits(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
    %0 = loop.load %x[d0] tile (d0 : 8) : vector<8xf32>
    %1 = loop.intrinsic "llvm.fabs.v8f32" requires ["avx2"] %0 : vector<8xf32> as vector<8xf32> {
    ^bb0(%a : vector<8xf32>):
      %2 = math.absf %a : vector<8xf32>
      loop.yield %2 : vector<8xf32>
    }
    loop.store %1, %y[d0] tile (d0 : 8) : vector<8xf32>
  }
}

// CHECK-NOT:   sched
// CHECK:       loop.func @rows(%A: memref<16x3xf32>, %B: memref<3x16xf32>)
// CHECK:       loop.for %j = 0 to 3 {
// CHECK-NEXT:    loop.for %i_o = 0 to 2 {
// CHECK-NEXT:      loop.block "c" (%v : 16 = %i_o * 8, %w : 3 = %j) {
// CHECK-NEXT:        %0 = loop.load %A[d0 + %v, %w] tile (d0 : 8) : vector<8xf32>
// CHECK-NEXT:        %1 = loop.intrinsic "llvm.fabs.v8f32"
// CHECK:             loop.store %1, %B[%w, d0 + %v] tile (d0 : 8) : vector<8xf32>
loop.func @rows(%A: memref<16x3xf32>, %B: memref<3x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 3 { loop.for %i = 0 to 16 {
    loop.block "c" (%v : 16 = %i, %w : 3 = %j) {
      %0 = loop.load %A[%v, %w] : f32
      %1 = math.absf %0 : f32
      loop.store %1, %B[%w, %v] : f32
    }
  } }
}
sched.schedule @rows {
  %c = sched.block "c" : !sched.block
  %j, %i = sched.loops %c : 2
  %i_o, %i_i = sched.split %i [?, 8]
  sched.tensorize %i_i "double"
}
