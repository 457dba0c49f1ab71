// RUN: mlc-opt %s -p 'loop-reuse-buffers{least-bytes=1}' --split-input-file | filecheck %s

// Exponentials of a row lie in the row of the output that they become.
// CHECK-LABEL: loop.func @row
// CHECK-NOT:       loop.alloc
// CHECK:           loop.store %{{.*}}, %y[%i, d0 + %k * 16] tile (d0 : 16)
// CHECK:           %[[E:.*]] = loop.load %y[%i, d0 + %j * 16] tile (d0 : 16)
// CHECK-NEXT:      %[[M:.*]] = arith.mulf %[[E]], %[[E]]
// CHECK-NEXT:      loop.store %[[M]], %y[%i, d0 + %j * 16] tile (d0 : 16)
loop.func @row(%x: memref<8x64xf32>, %y: memref<8x64xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    %s = loop.alloc "local" : memref<1x64xf32>
    loop.for %k = 0 to 4 {
      %a = loop.load %x[%i, d0 + %k * 16] tile (d0 : 16) : vector<16xf32>
      %e = math.exp %a : vector<16xf32>
      loop.store %e, %s[0, d0 + %k * 16] tile (d0 : 16) : vector<16xf32>
    }
    loop.for %j = 0 to 4 {
      %b = loop.load %s[0, d0 + %j * 16] tile (d0 : 16) : vector<16xf32>
      %m = arith.mulf %b, %b : vector<16xf32>
      loop.store %m, %y[%i, d0 + %j * 16] tile (d0 : 16) : vector<16xf32>
    }
  }
}

// -----

// The last tile is shifted inwards: it would read what it has written.
// CHECK-LABEL: loop.func @overlap
// CHECK:           loop.alloc
loop.func @overlap(%x: memref<24xf32>, %y: memref<24xf32>) attributes {outputs = 1 : i64} {
  %s = loop.alloc "local" : memref<24xf32>
  loop.for %k = 0 to 2 {
    %a = loop.load %x[d0 + %k * 8] tile (d0 : 16) : vector<16xf32>
    loop.store %a, %s[d0 + %k * 8] tile (d0 : 16) : vector<16xf32>
  }
  loop.for %j = 0 to 2 {
    %b = loop.load %s[d0 + %j * 8] tile (d0 : 16) : vector<16xf32>
    %m = arith.mulf %b, %b : vector<16xf32>
    loop.store %m, %y[d0 + %j * 8] tile (d0 : 16) : vector<16xf32>
  }
}

// -----

// Another element is read than is written; an element is read again behind the write; not all are written.
// CHECK-LABEL: loop.func @reversed
// CHECK:           loop.alloc
loop.func @reversed(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %s = loop.alloc "local" : memref<8xf32>
  loop.for %k = 0 to 8 {
    %a = loop.load %x[%k] : f32
    loop.store %a, %s[%k] : f32
  }
  loop.for %j = 0 to 8 {
    %b = loop.load %s[-%j + 7] : f32
    loop.store %b, %y[%j] : f32
  }
}

// CHECK-LABEL: loop.func @again
// CHECK:           loop.alloc
loop.func @again(%x: memref<8xf32>, %z: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 2 : i64} {
  %s = loop.alloc "local" : memref<8xf32>
  loop.for %k = 0 to 8 {
    %a = loop.load %x[%k] : f32
    loop.store %a, %s[%k] : f32
  }
  loop.for %j = 0 to 8 {
    %b = loop.load %s[%j] : f32
    %m = arith.mulf %b, %b : f32
    loop.store %m, %y[%j] : f32
  }
  loop.for %j = 0 to 4 {
    %b = loop.load %s[%j] : f32
    loop.store %b, %z[%j] : f32
  }
}

// CHECK-LABEL: loop.func @partly
// CHECK:           loop.alloc
loop.func @partly(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %s = loop.alloc "local" : memref<8xf32>
  loop.for %k = 0 to 8 {
    %a = loop.load %x[%k] : f32
    loop.store %a, %s[%k] : f32
  }
  loop.for %j = 0 to 6 {
    %b = loop.load %s[%j] : f32
    %m = arith.mulf %b, %b : f32
    loop.store %m, %y[%j] : f32
  }
}

// -----

// Exponentials take the place of the scores that they are computed from; the buffer is there as early as those.
// CHECK-LABEL: loop.func @strip
// CHECK:           %[[E:.*]] = loop.alloc "local" : memref<64xf32>
// CHECK-NOT:       loop.alloc
// CHECK:           loop.store %{{.*}}, %[[E]][d0 + %k * 16] tile (d0 : 16)
// CHECK:           %{{.*}} = loop.load %[[E]][d0 + %j * 16] tile (d0 : 16)
// CHECK:           loop.store %{{.*}}, %[[E]][d0 + %j * 16] tile (d0 : 16)
// CHECK:           loop.load %[[E]][-%n + 63]
loop.func @strip(%x: memref<64xf32>, %y: memref<64xf32>) attributes {outputs = 1 : i64} {
  %s = loop.alloc "local" : memref<64xf32>
  loop.for %k = 0 to 4 {
    %a = loop.load %x[d0 + %k * 16] tile (d0 : 16) : vector<16xf32>
    loop.store %a, %s[d0 + %k * 16] tile (d0 : 16) : vector<16xf32>
  }
  %e = loop.alloc "local" : memref<64xf32>
  loop.for %j = 0 to 4 {
    %b = loop.load %s[d0 + %j * 16] tile (d0 : 16) : vector<16xf32>
    %m = math.exp %b : vector<16xf32>
    loop.store %m, %e[d0 + %j * 16] tile (d0 : 16) : vector<16xf32>
  }
  loop.for %n = 0 to 64 {
    %r = loop.load %e[-%n + 63] : f32
    loop.store %r, %y[%n] : f32
  }
}

// -----

// The buffer is read in the loop that writes it, before the scores of the next turn are: they stay apart.
// CHECK-LABEL: loop.func @carried
// CHECK-COUNT-2:   loop.alloc
loop.func @carried(%x: memref<64xf32>, %y: memref<64xf32>) attributes {outputs = 1 : i64} {
  %s = loop.alloc "local" : memref<64xf32>
  %e = loop.alloc "local" : memref<64xf32>
  loop.for %k = 0 to 64 {
    %a = loop.load %x[%k] : f32
    loop.store %a, %s[%k] : f32
  }
  loop.for %j = 0 to 64 {
    %b = loop.load %s[%j] : f32
    loop.store %b, %e[%j] : f32
    %r = loop.load %e[0] : f32
    loop.store %r, %y[-%j + 63] : f32
  }
}
