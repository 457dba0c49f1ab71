// A crash of mlc-opt; replay it with: mlc-opt --run-reproducer mlc.reproducer.mlir
// configuration: '--pass-pipeline=builtin.module(convert-graph-to-te,te-factor-reductions,te-inline,te-add-schedule,convert-te-to-loop,loop-apply-schedule,loop-partition,loop-inline-unit-loops,loop-form-tiles,loop-compact-buffers,loop-promote-tiles,convert-loop-to-llvm{instructions="dpbf16ps,dpbusd,dpbusd256,pmaddwd,permi2b"})'
// error: KernelCrash: a bug in mlc: kernel 'take_pad_94e861e8' (from 'Gather_0', 'Pad_1') cannot be compiled: PassFailedException: expected block 'pad' to gather inside of its buffer where its predicate fails, but index 1 of memref<9x33xf32> reaches from 0 to 63; do not vectorize its loops
// versions: mlc 0.1.0, xdsl 0.74.0, Python 3.11.7
//   Traceback (most recent call last):
//     File "/work/main/mlc/tools/cli.py", line 201, in run
//       return import_module(COMMANDS[args.command][0]).run(args)
//              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/tools/cli_compile.py", line 36, in run
//       return emit_text(args, what)
//              ^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/tools/cli_compile.py", line 141, in emit_text
//       remove_scratch(compilation.write(directory).path)
//                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/compilation.py", line 69, in write
//       self.kernels = self.compile_kernels(sources)
//                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/compilation.py", line 177, in compile_kernels
//       results = run_jobs(jobs, workers=1 if self.options.instruments else None)
//                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/workers.py", line 71, in run_jobs
//       results.append(_run_here(job))
//                      ^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/workers.py", line 80, in _run_here
//       raise _failure(job, kind, value, detail)
//   mlc.driver.workers.KernelCrash: a bug in mlc: kernel 'take_pad_94e861e8' (from 'Gather_0', 'Pad_1') cannot be compiled: PassFailedException: expected block 'pad' to gather inside of its buffer where its predicate fails, but index 1 of memref<9x33xf32> reaches from 0 to 63; do not vectorize its loops
func.func private @take_pad_94e861e8(%a0: tensor<9x33xf32>, %a1: tensor<5xi64>) -> tensor<5x64xf32> attributes {graph.kernel, graph.hash = "e32b02b80196ac85"} {
  %0 = graph.take %a0, %a1 : (tensor<9x33xf32>, tensor<5xi64>) -> tensor<5x33xf32>
  %1 = graph.pad %0 {pad_width = [0, 0, 0, 31]} : (tensor<5x33xf32>) -> tensor<5x64xf32>
  func.return %1 : tensor<5x64xf32>
}
