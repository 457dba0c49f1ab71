// A crash of mlc-opt; replay it with: mlc-opt --run-reproducer mlc.reproducer.mlir
// configuration: '--pass-pipeline=builtin.module(convert-graph-to-te,te-factor-reductions,te-inline,te-add-schedule{threads=2},convert-te-to-loop,loop-apply-schedule,loop-partition,loop-inline-unit-loops,loop-form-tiles,loop-compact-buffers,loop-promote-tiles,convert-loop-to-llvm{instructions="dpbf16ps,dpbusd,dpbusd256,pmaddwd,permi2b"})'
// error: KernelCrash: a bug in mlc: kernel 'multiply_mean_multiply_subtract_relu_add_sqrt_reciprocal_94f91460' (from 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/Square', 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/truediv_1', 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/Square_1') cannot be compiled: ResultChanged: pass 'convert-te-to-loop' changed @multiply_mean_multiply_subtract_relu_add_sqrt_reciprocal_94f91460 (loop, at (1,)): output 0: the rounding error in its own precision grows from 0.000791 to 0.0109, more than 4 times
// versions: mlc 0.1.0, xdsl 0.74.0, Python 3.11.7
//   Traceback (most recent call last):
//     File "/work/main/mlc/tools/cli.py", line 241, in run
//       return import_module(COMMANDS[args.command][0]).run(args)
//              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/tools/cli_compile.py", line 60, in run
//       artifact, owned = compiled(args)
//                         ^^^^^^^^^^^^^^
//     File "/work/main/mlc/tools/cli_compile.py", line 101, in compiled
//       return build_artifact(args.model, options, shapes_of(args), cache, symbols=symbols_of(args))
//              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/compile.py", line 153, in build_artifact
//       artifact = compilation.write(directory)
//                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/compilation.py", line 72, in write
//       self.kernels = self.compile_kernels(sources)
//                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/compilation.py", line 183, in compile_kernels
//       results = run_jobs(jobs, workers=1 if self.options.instruments else None)
//                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/workers.py", line 73, in run_jobs
//       return _Crew(jobs, count, done).run()
//              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/driver/workers.py", line 175, in run
//       self.collect(key.data)
//     File "/work/main/mlc/driver/workers.py", line 202, in collect
//       raise _failure(job, kind, value, detail)
//   mlc.driver.workers.KernelCrash: a bug in mlc: kernel 'multiply_mean_multiply_subtract_relu_add_sqrt_reciprocal_94f91460' (from 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/Square', 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/truediv_1', 'jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0/Square_1') cannot be compiled: ResultChanged: pass 'convert-te-to-loop' changed @multiply_mean_multiply_subtract_relu_add_sqrt_reciprocal_94f91460 (loop, at (1,)): output 0: the rounding error in its own precision grows from 0.000791 to 0.0109, more than 4 times
func.func private @multiply_mean_multiply_subtract_relu_add_sqrt_reciprocal_94f91460(%a0: tensor<?x512x256xf32, #graph.dims<[s0]>>, %a1: tensor<?x256xf32, #graph.dims<[s0]>>) -> tensor<?x256xf32, #graph.dims<[s0]>> attributes {graph.kernel, graph.symbols = {s0 = #graph.symbol<1 to 999999999 like 1>}, graph.hash = "afbff4da3cd7611a"} {
  %0 = graph.constant dense<1.000000e-06> : tensor<f32>
  %1 = graph.multiply %a0, %a0 : tensor<?x512x256xf32, #graph.dims<[s0]>>
  %2 = graph.mean %1 {axes = [1]} : (tensor<?x512x256xf32, #graph.dims<[s0]>>) -> tensor<?x256xf32, #graph.dims<[s0]>>
  %3 = graph.multiply %a1, %a1 : tensor<?x256xf32, #graph.dims<[s0]>>
  %4 = graph.subtract %2, %3 : tensor<?x256xf32, #graph.dims<[s0]>>
  %5 = graph.relu %4 : tensor<?x256xf32, #graph.dims<[s0]>>
  %6 = graph.add %5, %0 : (tensor<?x256xf32, #graph.dims<[s0]>>, tensor<f32>) -> tensor<?x256xf32, #graph.dims<[s0]>>
  %7 = graph.sqrt %6 : tensor<?x256xf32, #graph.dims<[s0]>>
  %8 = graph.reciprocal %7 : tensor<?x256xf32, #graph.dims<[s0]>>
  func.return %8 : tensor<?x256xf32, #graph.dims<[s0]>>
}
