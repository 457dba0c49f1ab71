/* Runs a model that mlc exported, without Python.

       mlc compile model.onnx -o model.so        writes model.so and model.h
       cc examples/run_model.c -DMODEL_HEADER='"model.h"' -DMODEL=mlc_model -DMODEL_CAPS=MLC_MODEL \
          -I. -L. -l:model.so -Wl,-rpath,. -o run_model
       ./run_model input.bin output.bin [threads]

   It reads the first input as raw bytes (the others are zeros) and writes the first output as raw bytes. */

#include MODEL_HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define INPUTS PASTE(MODEL_CAPS, _INPUTS)
#define OUTPUTS PASTE(MODEL_CAPS, _OUTPUTS)
#define INPUT_BYTES PASTE(MODEL_CAPS, _INPUT_0_BYTES)
#define OUTPUT_BYTES PASTE(MODEL_CAPS, _OUTPUT_0_BYTES)
#define WORKSPACE_BYTES PASTE(MODEL_CAPS, _WORKSPACE_BYTES)

static int fail(const char *what) {
  fprintf(stderr, "run_model: %s\n", what);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3 || INPUTS != 1 || OUTPUTS != 1) return fail("usage: run_model input.bin output.bin [threads]");
  char lacking[512];
  if (PASTE(MODEL, _check_cpu)(lacking, sizeof lacking)) return fail(lacking);
  void *input = aligned_alloc(64, (INPUT_BYTES + 63) / 64 * 64);
  void *output = aligned_alloc(64, (OUTPUT_BYTES + 63) / 64 * 64);
  void *workspace = aligned_alloc(64, (WORKSPACE_BYTES + 64) / 64 * 64);
  mlc_runtime *rt = mlc_runtime_create(argc > 3 ? atoi(argv[3]) : 1);
  if (!input || !output || !workspace || !rt) return fail("out of memory");

  FILE *file = fopen(argv[1], "rb");
  if (!file || fread(input, 1, INPUT_BYTES, file) != INPUT_BYTES) return fail("cannot read the input");
  fclose(file);

  const void *inputs[] = {input};
  void *outputs[] = {output};
  int32_t status = PASTE(MODEL, _run)(inputs, outputs, rt);
  if (status) return fail("the model returned an error");

  /* Again, in a workspace of our own: nothing is allocated, and the answer is the same. */
  void *again = aligned_alloc(64, (OUTPUT_BYTES + 63) / 64 * 64);
  void *outputs_again[] = {again};
  status = PASTE(MODEL, _run_in)(inputs, outputs_again, workspace, rt);
  if (status || memcmp(output, again, OUTPUT_BYTES)) return fail("two runs differ");

  file = fopen(argv[2], "wb");
  if (!file || fwrite(output, 1, OUTPUT_BYTES, file) != OUTPUT_BYTES) return fail("cannot write the output");
  fclose(file);
  mlc_runtime_destroy(rt);
  free(input), free(output), free(again), free(workspace);
  return 0;
}
