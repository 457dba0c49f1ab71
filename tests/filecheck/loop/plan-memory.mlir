// RUN: mlc-opt %s -p loop-plan-memory | filecheck %s
// RUN: mlc-opt %s -p loop-plan-memory,convert-loop-to-llvm | filecheck %s --check-prefix=BYTES

// %a is dead when %c is written: they share. %b is alive with both.
// CHECK-LABEL: loop.func @chain
// CHECK:         %a = loop.alloc "local" {mlc.offset = [[first:.*]] : i64} : memref<1024xf32>
// CHECK-NEXT:    %b = loop.alloc "local" {mlc.offset = [[second:.*]] : i64} : memref<1024xf32>
// CHECK-NEXT:    %c = loop.alloc "local" {mlc.offset = [[first]] : i64} : memref<1024xf32>
// BYTES:       mlc.scratch_bytes = 8320 : i64
loop.func @chain(%x: memref<1024xf32>, %y: memref<1024xf32>) attributes {outputs = 1 : i64} {
  %a = loop.alloc "local" : memref<1024xf32>
  %b = loop.alloc "local" : memref<1024xf32>
  %c = loop.alloc "local" : memref<1024xf32>
  loop.for %i = 0 to 1024 {
    %v = loop.load %x[%i] : f32
    loop.store %v, %a[%i] : f32
  }
  loop.for %i = 0 to 1024 {
    %v = loop.load %a[%i] : f32
    loop.store %v, %b[%i] : f32
  }
  loop.for %i = 0 to 1024 {
    %v = loop.load %b[%i] : f32
    loop.store %v, %c[%i] : f32
  }
  loop.for %i = 0 to 1024 {
    %v = loop.load %c[%i] : f32
    loop.store %v, %y[%i] : f32
  }
}

// Of open sizes %c shares the slot of %b, which is never smaller; %a is alive with %b.
// CHECK-LABEL: loop.func @open
// CHECK:         %a = loop.alloc "shared" (%n) {mlc.slot = 1 : i64} : memref<?xf32>
// CHECK-NEXT:    %b = loop.alloc "shared" (%n + 1) {mlc.slot = 0 : i64} : memref<?xf32>
// CHECK-NEXT:    %c = loop.alloc "shared" (%n) {mlc.shares = 0 : i64} : memref<?xf32>
loop.func @open(%x: memref<1024xf32>, %y: memref<1024xf32>, %n: index) attributes {outputs = 1 : i64} {
  %a = loop.alloc "shared" (%n) : memref<?xf32>
  %b = loop.alloc "shared" (%n + 1) : memref<?xf32>
  %c = loop.alloc "shared" (%n) : memref<?xf32>
  loop.for %i = 0 to %n {
    %v = loop.load %x[%i] : f32
    loop.store %v, %b[%i] : f32
  }
  loop.for %i = 0 to %n {
    %v = loop.load %b[%i] : f32
    loop.store %v, %a[%i] : f32
  }
  loop.for %i = 0 to %n {
    %v = loop.load %a[%i] : f32
    loop.store %v, %c[%i] : f32
  }
  loop.for %i = 0 to %n {
    %v = loop.load %c[%i] : f32
    loop.store %v, %y[%i] : f32
  }
}
