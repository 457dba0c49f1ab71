// RUN: mlc-opt %s -p loop-compact-buffers | filecheck %s

// A buffer moves into the loop that uses it, at the size of what one iteration touches, and to the thread's scratch.
// CHECK-LABEL: loop.func @rows
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 4 parallel {
// CHECK-NEXT:      %[[B:.*]] = loop.alloc "local" : memref<16x64xf32>
// CHECK:             loop.store %{{.*}}, %[[B]][%[[R:.*]], d0]
// CHECK:             loop.load %[[B]][%[[S:.*]] + 2, d0]
loop.func @rows(%X: memref<58x64xf32>, %Y: memref<56x64xf32>) attributes {outputs = 1 : i64} {
  %b = loop.alloc "shared" : memref<58x64xf32>
  loop.for %i = 0 to 4 parallel {
    loop.for %r = 0 to 16 {
      %x = loop.load %X[%i * 14 + %r, d0] tile (d0 : 64) : vector<64xf32>
      loop.store %x, %b[%i * 14 + %r, d0] tile (d0 : 64) : vector<64xf32>
    }
    loop.for %r = 0 to 14 {
      %x = loop.load %b[%i * 14 + %r + 2, d0] tile (d0 : 64) : vector<64xf32>
      loop.store %x, %Y[%i * 14 + %r, d0] tile (d0 : 64) : vector<64xf32>
    }
  }
}

// What all threads see, and what one iteration leaves to the next, stays where it is.
// CHECK-LABEL: loop.func @stays
// CHECK:         %[[W:.*]] = loop.alloc "shared" : memref<8xf32>
// CHECK-NEXT:    loop.for %{{.*}} = 0 to 8 parallel {
// CHECK:         %[[A:.*]] = loop.alloc "local" : memref<1xf32>
// CHECK-NEXT:    loop.for
loop.func @stays(%X: memref<8xf32>, %Y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %w = loop.alloc "shared" : memref<8xf32>
  %a = loop.alloc "shared" : memref<3xf32>
  %z = arith.constant 0.0 : f32
  loop.for %i = 0 to 8 parallel {
    %x = loop.load %X[%i] : f32
    loop.store %x, %w[%i] : f32
  }
  loop.for %i = 0 to 8 {
    loop.store %z, %a[1] mask (-%i) : f32
    %x = loop.load %w[7 - %i] : f32
    %s = loop.load %a[1] : f32
    %n = arith.addf %s, %x : f32
    loop.store %n, %a[1] : f32
    loop.store %n, %Y[%i] : f32
  }
}

// A buffer that each thread has of its own does not become all threads', though a mask hides that it is written first.
// CHECK-LABEL: loop.func @own
// CHECK-NEXT:    loop.for %{{.*}} = 0 to 8 parallel {
// CHECK:           loop.alloc "local" : memref<4xf32>
loop.func @own(%X: memref<8x4xf32>, %n: memref<8x4xindex>, %Y: memref<8x4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 parallel {
    %b = loop.alloc "local" : memref<4xf32>
    loop.for %k = 0 to 4 {
      %m = loop.load %n[%i, %k] : index
      %x = loop.load %X[%i, %k] : f32
      loop.store %x, %b[%k] mask (%m) : f32
    }
    loop.for %k = 0 to 4 {
      %x = loop.load %b[%k] : f32
      loop.store %x, %Y[%i, %k] : f32
    }
  }
}

// The last iteration of a loop, which stands behind it as several loops, gets a buffer of its own.
// CHECK-LABEL: loop.func @rest
// CHECK-NEXT:    loop.for %{{.*}} = 0 to 3 {
// CHECK-NEXT:      %[[MAIN:.*]] = loop.alloc "local" : memref<4xf32>
// CHECK:           loop.store %{{.*}}, %[[MAIN]][%{{.*}}]
// CHECK:           loop.load %[[MAIN]][-%{{.*}} + 3]
// CHECK:         %[[REST:.*]] = loop.alloc "local" : memref<3xf32>
// CHECK-NEXT:    loop.for %{{.*}} = 0 to 2 {
// CHECK:           loop.store %{{.*}}, %[[REST]][%{{.*}}]
// CHECK:         loop.store %{{.*}}, %[[REST]][2]
// CHECK:           loop.load %[[REST]][-%{{.*}} + 2]
loop.func @rest(%X: memref<15xf32>, %Y: memref<15xf32>) attributes {outputs = 1 : i64} {
  %b = loop.alloc "shared" : memref<15xf32>
  loop.for %i = 0 to 3 {
    loop.for %k = 0 to 4 {
      %x = loop.load %X[%i * 4 + %k] : f32
      loop.store %x, %b[%i * 4 + %k] : f32
    }
    loop.for %k = 0 to 4 {
      %x = loop.load %b[%i * 4 - %k + 3] : f32
      loop.store %x, %Y[%i * 4 + %k] : f32
    }
  }
  loop.for %k = 0 to 2 {
    %x = loop.load %X[%k + 12] : f32
    loop.store %x, %b[%k + 12] : f32
  }
  %z = loop.load %X[14] : f32
  loop.store %z, %b[14] : f32
  loop.for %k = 0 to 3 {
    %x = loop.load %b[14 - %k] : f32
    loop.store %x, %Y[%k + 12] : f32
  }
}

// Stores that leave gaps, or stand behind a mask or in a loop of open bounds, do not begin a buffer anew.
// CHECK-LABEL: loop.func @gaps
// CHECK-COUNT-3:  loop.alloc "local"
// CHECK-NOT:      loop.alloc
loop.func @gaps(%X: memref<8xf32>, %Y: memref<24xf32>, %n: index) attributes {outputs = 1 : i64} {
  %a = loop.alloc "shared" : memref<8xf32>
  %b = loop.alloc "shared" : memref<8xf32>
  %c = loop.alloc "shared" : memref<8xf32>
  loop.for %i = 0 to 8 {
    %x = loop.load %X[%i] : f32
    loop.store %x, %a[%i] : f32
    loop.store %x, %b[%i] : f32
    loop.store %x, %c[%i] : f32
  }
  %z = arith.constant 0.0 : f32
  loop.for %i = 0 to 4 {
    loop.store %z, %a[%i * 2] : f32
  }
  loop.for %i = 0 to 7 {
    %x = loop.load %a[%i] : f32
    loop.store %x, %Y[%i] : f32
  }
  loop.for %i = 0 to 8 {
    loop.store %z, %b[%i] mask (%n - %i) : f32
  }
  loop.for %i = 0 to 8 {
    %x = loop.load %b[%i] : f32
    loop.store %x, %Y[%i + 8] : f32
  }
  loop.for %i = 0 to %n {
    loop.store %z, %c[%i] : f32
  }
  loop.for %i = 0 to 8 {
    %x = loop.load %c[%i] : f32
    loop.store %x, %Y[%i + 16] : f32
  }
}

// Parts of a partitioned loop that are partitioned once more have buffers of their own, too.
// CHECK-LABEL: loop.func @rests_of_rests
// CHECK-NEXT:    loop.for %main = 0 to 2 {
// CHECK-NEXT:      loop.for %i = 0 to 3 {
// CHECK-NEXT:        loop.alloc "local" : memref<4xf32>
// CHECK:           loop.alloc "local" : memref<2xf32>
// CHECK:         loop.for %i
// CHECK-NEXT:      loop.alloc "local" : memref<4xf32>
// CHECK-NOT:     loop.alloc
loop.func @rests_of_rests(%X: memref<28xf32>, %Y: memref<28xf32>) attributes {outputs = 1 : i64} {
  %b = loop.alloc "local" : memref<28xf32>
  loop.for %main = 0 to 2 {
    loop.for %i = 0 to 3 {
      loop.for %k = 0 to 4 {
        %x = loop.load %X[%main * 14 + %i * 4 + %k] : f32
        loop.store %x, %b[%main * 14 + %i * 4 + %k] : f32
      }
      loop.for %k = 0 to 4 {
        %x = loop.load %b[%main * 14 + %i * 4 - %k + 3] : f32
        loop.store %x, %Y[%main * 14 + %i * 4 + %k] : f32
      }
    }
    loop.for %k = 0 to 2 {
      %x = loop.load %X[%main * 14 + %k + 12] : f32
      loop.store %x, %b[%main * 14 + %k + 12] : f32
    }
    loop.for %k = 0 to 2 {
      %x = loop.load %b[%main * 14 - %k + 13] : f32
      loop.store %x, %Y[%main * 14 + %k + 12] : f32
    }
  }
  loop.for %i = 0 to 7 {
    loop.for %k = 0 to 4 {
      %x = loop.load %X[%i * 4 + %k] : f32
      loop.store %x, %b[%i * 4 + %k] : f32
    }
    loop.for %k = 0 to 4 {
      %x = loop.load %b[%i * 4 - %k + 3] : f32
      loop.store %x, %Y[%i * 4 + %k] : f32
    }
  }
}

// A dimension that is written as a whole holds all that is read of it, wherever loops with bounds of their own read.
// CHECK-LABEL: loop.func @clipped
// CHECK-NEXT:    loop.for %[[C:.*]] = 0 to 4 parallel {
// CHECK-NEXT:      loop.alloc "local" : memref<1x6x16xf32>
loop.func @clipped(%X: memref<4x6x16xf32>, %Y: memref<4x6x16xf32>) attributes {outputs = 1 : i64} {
  %b = loop.alloc "shared" : memref<4x6x16xf32>
  loop.for %c = 0 to 4 parallel {
    loop.for %h = 0 to 6 {
      %x = loop.load %X[%c, %h, d0] tile (d0 : 16) : vector<16xf32>
      loop.store %x, %b[%c, %h, d0] tile (d0 : 16) : vector<16xf32>
    }
    loop.for %o = 0 to 6 {
      loop.for %k = -((%o - 1) floordiv 8) to 2 {
        %x = loop.load %b[%c, %o + %k - 1, d0] tile (d0 : 16) : vector<16xf32>
        loop.store %x, %Y[%c, %o, d0] tile (d0 : 16) : vector<16xf32>
      }
    }
  }
}
