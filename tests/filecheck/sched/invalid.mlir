// RUN: mlc-opt %s -p loop-apply-schedule --split-input-file --verify-diagnostics

sched.schedule @knob {
  %t = sched.knob "t" [16, 32] default 64 // expected-error {{expected the default of knob 't' among [16, 32], but got 64}}
}

// -----

sched.schedule @two_rests {
  %c = sched.block "c" : !sched.block
  %j = sched.loops %c : 1
  %o, %i = sched.split %j [?, ?] // expected-error {{expected at most one `?` among the factors}}
}

// -----

sched.schedule @factor {
  %c = sched.block "c" : !sched.block
  %j = sched.loops %c : 1
  %o, %i = sched.split %j [?, 0] // expected-error {{expected a positive factor, `?` or a knob, but got 0}}
}

// -----

sched.schedule @tile_factors {
  %c = sched.block "c" : !sched.block
  %i, %j = sched.loops %c : 2
  %0, %1, %2, %3 = sched.tile %i, %j [4] // expected-error {{expected one inner extent per loop, 2}}
}

// -----

sched.schedule @handle_type {
  %c = sched.block "c" : !sched.block
  sched.parallel %c // expected-error {{operand is used with type !sched.loop, but has been previously used or defined with type !sched.block}}
}

// -----

sched.schedule @layout {
  %c = sched.block "c" : !sched.block
  %j = sched.loops %c : 1
  sched.transform_layout %c [%j] // expected-error {{expected a map of the dimensions d0, d1, ... only}}
}

// -----

// expected-error@+1 {{expected only sched ops in a schedule, but got arith.constant}}
sched.schedule @other_op {
  %c = arith.constant 1 : i32
}

// -----

// expected-error@+1 {{expected a loop.func @nobody to schedule, but there is none}}
sched.schedule @nobody {
}

// -----

loop.func @known(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.block "copy" (%v : 8 = %i) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
// expected-error@+1 {{did you mean 'known'?}}
sched.schedule @knwon {
}

// -----

loop.func @reduce(%x: memref<4x8xf32>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 8 {
      loop.block "sum" (%v : 4 = %i) reduce (%r : 8 = %k) init {
      ^bb0(%v : index, %r : index):
        %z = arith.constant 0.0 : f32
        loop.store %z, %y[%v] : f32
      } {
        %a = loop.load %x[%v, %r] : f32
        %b = loop.load %y[%v] : f32
        %s = arith.addf %a, %b : f32
        loop.store %s, %y[%v] : f32
      }
    }
  }
}
sched.schedule @reduce {
  %s = sched.block "sum" : !sched.block
  %i, %k = sched.loops %s : 2
  sched.parallel %k // expected-error {{loop %k reduces block "sum"; use sched.rfactor to reduce in parallel}}
}

// -----

loop.func @consumed(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.block "copy" (%v : 8 = %i) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @consumed {
  %c = sched.block "copy" : !sched.block
  %i = sched.loops %c : 1
  %io, %ii = sched.split %i [?, 4]
  sched.vectorize %i // expected-error {{expected a live handle, but %i was consumed by sched.split}}
}

// -----

// expected-error@+1 {{expected the two functions loop.func @means and loop.func @emits}}
sched.intrinsic "one" requires [] {
  loop.func @means(%x: memref<8xf32>) attributes {outputs = 1 : i64} {
  }
}
