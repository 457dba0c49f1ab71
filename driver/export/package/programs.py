"""The C programs of a package: an example, and the check on recorded values."""

from __future__ import annotations

from math import prod

from mlc.driver.export.package import functions
from mlc.driver.export.package.spec import PackageSpec, PackedTensor
from mlc.runtime.sizes import evaluate

_READER = """
/* The file of weights at a multiple of 64 bytes, or NULL. */
static void *read_weights(const char *path) {
  FILE *file = fopen(path, "rb");
  char *memory = (char *)malloc(%(caps)s_WEIGHTS_BYTES + 64);
  if (!file || !memory) return NULL;
  char *data = memory + (64 - (uintptr_t)memory %% 64);
  if (fread(data, 1, %(caps)s_WEIGHTS_BYTES, file) != %(caps)s_WEIGHTS_BYTES) data = NULL;
  fclose(file);
  return data;
}
"""

_CUT = """
/* Zero what lies behind the valid bytes of each row: an output of a data-dependent length says nothing there. */
static void cut(void *data, size_t rows, size_t row_bytes, size_t valid) {
  for (size_t k = 0; k < rows && valid < row_bytes; ++k)
    memset((char *)data + k * row_bytes + valid, 0, row_bytes - valid);
}
"""


def example(spec: PackageSpec) -> str:
    """The text of examples/main.c: one run on zeros."""
    setup = [*functions.given(spec), *_size_lines(spec)]
    if not spec.inputs:
        setup.append("inputs.none = 0;")
    for struct, tensors in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for t in tensors:
            setup.append(f"{struct}.{t.field} = ({t.type} *)calloc({_count(spec, t)} + 1, sizeof({t.type}));")
            setup.append(f"if (!{struct}.{t.field}) return 1;")
    if spec.weights == "beside":
        setup.append(f'options.weights = read_weights(argc > 1 ? argv[1] : "weights/{spec.name}.weights");')
    show: list[str] = []
    for t in spec.outputs:
        form, cast = ('"%g "', "(double)") if t.type in ("float", "double") else ('"%ld "', "(long)")
        show.append(f'printf("{t.field} ({t.shape_text}, {t.dtype}): ");')
        show.append(
            f"for (size_t k = 0; k < {_count(spec, t)} && k < 8; ++k) printf({form}, {cast}outputs.{t.field}[k]);"
        )
        show.append('printf("\\n");')
    free = [f"free((void *)(uintptr_t){s}.{t.field});" for s, ts in _structs(spec) for t in ts]
    name = spec.name
    arena = f"{name}_workspace_bytes(&sizes, 1)" if spec.symbols else f"{name.upper()}_WORKSPACE_BYTES(1)"
    return spec.filled(
        "example.c",
        prototypes=functions.prototypes(spec),
        weights_reader=_READER % {"caps": name.upper()} if spec.weights == "beside" else "",
        setup=_indented(setup),
        arena_bytes=arena,
        sizes_argument="&sizes, " if spec.symbols else "",
        show=_indented(show),
        free=_indented(free),
    )


def check(spec: PackageSpec) -> str:
    """The text of test/check.c: one run on the recorded inputs."""
    setup = [*functions.given(spec), *_size_lines(spec)]
    if not spec.inputs:
        setup.append("inputs.none = 0;")
    compare: list[str] = []
    free: list[str] = []
    for k, t in enumerate(spec.inputs):
        size = t.bytes(spec.recorded)
        setup.append(f'inputs.{t.field} = (const {t.type} *)contents(directory, "input_{k}.bin", {size});')
        free.append(f"release(inputs.{t.field});")
    for k, axis, count in spec.counted:
        t = spec.outputs[k]
        sizes = [evaluate(size, spec.recorded) for size in t.shape]
        rows, item = prod(sizes[:axis]), prod(sizes[axis + 1 :]) * t.width
        valid = f"(size_t)outputs.{spec.outputs[count].field}[0] * {item}"
        compare.append(f"cut(outputs.{t.field}, {rows}, {sizes[axis] * item}, {valid});")
    for k, t in enumerate(spec.outputs):
        size = t.bytes(spec.recorded)
        setup.append(f"outputs.{t.field} = ({t.type} *)calloc({size} + 1, 1);")
        compare.append(f'const void *expected_{k} = contents(directory, "output_{k}.bin", {size});')
        compare.append(f'wrong |= compare("{t.field}", outputs.{t.field}, expected_{k}, {size}, "{t.dtype}");')
        free += [f"release(expected_{k});", f"free(outputs.{t.field});"]
    if spec.weights == "beside":
        where = f'argc > 2 ? argv[2] : "weights/{spec.name}.weights"'
        setup.append(f'options.weights = contents(".", {where}, {spec.name.upper()}_WEIGHTS_BYTES);')
        free.append("release(options.weights);")
    pool: list[str] = []
    if spec.threads > 1:
        pool.append(f"options.runtime = mlc_runtime_create({spec.threads});")
        free.append("mlc_runtime_destroy(options.runtime);")
    if not spec.malloc:
        setup += [f"void *arena = malloc({_check_arena(spec)} + 63);", "if (!arena) return 1;"]
        setup.append("options.arena = (char *)arena + (64 - (uintptr_t)arena % 64) % 64;")
        free.append("free(arena);")
    return spec.filled(
        "check.c",
        prototypes=functions.prototypes(spec),
        cut=_CUT if spec.counted else "",
        setup=_indented(setup),
        threads=_indented(pool),
        sizes_argument="&sizes, " if spec.symbols else "",
        compare=_indented(compare),
        free=_indented(free),
    )


def _check_arena(spec: PackageSpec) -> str:
    if spec.symbols:
        return f"{spec.name}_workspace_bytes(&sizes, {spec.threads})"
    return f"{spec.name.upper()}_WORKSPACE_BYTES({spec.threads})"


def _size_lines(spec: PackageSpec) -> list[str]:
    """The statements that compute the open sizes from the recorded shapes."""
    if not spec.symbols:
        return []
    lines = [f"{spec.name}_shapes shapes;", f"{spec.name}_sizes sizes;"]
    for t in spec.inputs:
        lines += [f"shapes.{t.field}[{k}] = {evaluate(size, spec.recorded)};" for k, size in enumerate(t.shape)]
    return [*lines, f"if ({spec.name}_sizes_of(&shapes, &sizes)) return 1;"]


def _count(spec: PackageSpec, t: PackedTensor) -> int:
    return t.bytes(spec.recorded) // t.width


def _structs(spec: PackageSpec) -> list[tuple[str, list[PackedTensor]]]:
    return [("inputs", spec.inputs), ("outputs", spec.outputs)]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
