// RUN: mlc-opt %s --load %S/Inputs/my_pass.py -p my-mark-ops | filecheck %s
// RUN: mlc-opt %s --load=%S/Inputs/my_pass.py -p 'my-mark-ops{mark="a b" times=2}' | filecheck %s --check-prefix=OPTIONS
// RUN: not mlc-opt %s --load %S/Inputs/my_pass.py -p 'my-forbid{dialect=greet}' 2>&1 | filecheck %s --check-prefix=FORBID
// RUN: not mlc-opt %s 2>&1 | filecheck %s --check-prefix=UNLOADED
// RUN: mlc-opt --load %S/Inputs/my_pass.py --show-passes=my-mark-ops | filecheck %s --check-prefix=SHOW

// CHECK:   "greet.hello"() {mark = "seen"} : () -> ()
// OPTIONS: "greet.hello"() {mark = "a ba b"} : () -> ()
// FORBID: load.mlir:[[# @LINE + 3]]:1: warning: 'greet.hello' op is doubtful
// FORBID: load.mlir:[[# @LINE + 2]]:1: error: 'greet.hello' op is not allowed here
// UNLOADED: error: operation 'greet.hello' is not registered
"greet.hello"() : () -> ()

// SHOW:      my-mark-ops
// SHOW-NEXT:   Writes a mark on every operation of a name.
// SHOW-NEXT:   op: str = greet.hello
// SHOW-NEXT:   mark: str = seen
// SHOW-NEXT:   times: int = 1
// SHOW-NEXT:   sizes: tuple[int, ...] = 1,2
