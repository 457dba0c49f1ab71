"""The header of a package and the functions that it declares, as C99 around the compiled program."""

from __future__ import annotations

from collections.abc import Sequence

from mlc.driver.export.package import functions, pools
from mlc.driver.export.package.spec import PackageSpec, PackedTensor
from mlc.support.abi import ABI_VERSION, C_DECLARATIONS, FUNCTION_MISSING

_RUNTIME = """
#ifndef MLC_RUNTIME_DECLARED
#define MLC_RUNTIME_DECLARED
{declarations}#endif
"""
_ARENA = """\
/* The bytes of an arena for a call with so many threads. */
#define {caps}_WORKSPACE_BYTES(threads) ((size_t){own} + (size_t)(threads) * {scratch})
"""
_NO_ARENA = "      return %s_INVALID; /* the arena is missing */"
_MISSING = """,
  {caps}_MISSING_FUNCTION = {missing} /* options->functions lacks a function that the model calls */"""
_MISSING_TEXT = """\
    case {caps}_MISSING_FUNCTION: return "options->functions lacks a function that the model calls";
"""
_SIZES = """
/* The open sizes of the model. */
typedef struct {name}_sizes {{
{sizes}
}} {name}_sizes;

/* The shapes of the inputs. */
typedef struct {name}_shapes {{
{shapes}
}} {name}_shapes;

/* The shapes of the outputs. */
typedef struct {name}_output_shapes {{
{output_shapes}
}} {name}_output_shapes;

/* The open sizes for inputs of these shapes; {caps}_INVALID where they do not fit the model or each other. */
int32_t {name}_sizes_of(const {name}_shapes *shapes, {name}_sizes *sizes);

/* The shapes of the outputs for such sizes. */
void {name}_shapes_of(const {name}_sizes *sizes, {name}_output_shapes *shapes);

/* The bytes of an arena for a call with such sizes and so many threads. */
size_t {name}_workspace_bytes(const {name}_sizes *sizes, int32_t threads);
"""
_SIZE_FUNCTIONS = """
int32_t {name}_sizes_of(const {name}_shapes *shapes, {name}_sizes *sizes) {{
  const int64_t *const given[] = {{{given}}};
  int64_t found[{count}];
  const int32_t status = {prefix}_symbols(given, found);
  if (status) return {caps}_INVALID;
{found}
  return {caps}_OK;
}}

void {name}_shapes_of(const {name}_sizes *sizes, {name}_output_shapes *shapes) {{
  const int64_t known[] = {{{known}}};
  int64_t *const to[] = {{{to}}};
  {prefix}_output_shapes(known, to);
}}

/* The bytes of an arena without the scratch of the threads. */
static size_t own_bytes(const {name}_sizes *sizes, int32_t threads) {{
  const int64_t known[] = {{{known}}};
  return ((size_t){prefix}_workspace_bytes(known, threads) + 63) / 64 * 64;
}}

size_t {name}_workspace_bytes(const {name}_sizes *sizes, int32_t threads) {{
  return own_bytes(sizes, threads) + (size_t)threads * LOCAL_BYTES;
}}
"""


def header(spec: PackageSpec) -> str:
    """The text of include/NAME.h."""
    declarations = C_DECLARATIONS if spec.threads > 1 else C_DECLARATIONS.partition("/* A runtime on")[0]
    more: list[str] = []
    if spec.threads > 1:
        more.append("  mlc_runtime *runtime;                          /* a thread pool; NULL: the calling thread */\n")
    if spec.weights == "beside":
        more.append("  const void *weights;                           /* the content of the file of weights */\n")
    more += [functions.options(spec), pools.option(spec)]
    status = _MISSING.format(caps=spec.name.upper(), missing=FUNCTION_MISSING) if spec.functions else ""
    arena = _ARENA.format(caps=spec.name.upper(), own=spec.own_bytes, scratch=spec.scratch_bytes)
    return spec.filled(
        "header.h",
        macros=("" if spec.symbols else arena) + pools.macros(spec),
        inputs=_fields(spec.inputs, "const "),
        outputs=_fields(spec.outputs, ""),
        sizes=_sizes(spec) if spec.symbols else "",
        runtime=_RUNTIME.format(declarations=declarations) if spec.threads > 1 else "",
        functions=functions.struct(spec) + pools.struct(spec),
        more_status=status,
        malloc="malloc" if spec.malloc else "an arena is needed",
        more_options="".join(more),
        but=_but(spec),
        sizes_parameter=f"const {spec.name}_sizes *sizes," if spec.symbols else "",
    )


def interface(spec: PackageSpec) -> str:
    """The text of src/NAME.c."""
    tensors = [("inputs", t) for t in spec.inputs] + [("outputs", t) for t in spec.outputs]
    io = [f"io[{k}] = (void *)(uintptr_t){struct}->{t.field};" for k, (struct, t) in enumerate(tensors)]
    io += [f"io[{len(tensors) + k}] = (void *)(intptr_t)sizes->{s[0]};" for k, s in enumerate(spec.symbols)]
    wrong = [f" ||\n      is_wrong({struct}->{t.field}, {t.width})" for struct, t in tensors]
    release = "  if (memory && !options->allocate) free(memory);" if spec.malloc else ""
    own = "own_bytes(sizes, rt.threads)" if spec.symbols else str(spec.own_bytes)
    if pools.has_workspace(spec):
        own = f"options->pools ? 0 : {own}"
    return spec.filled(
        "interface.c",
        includes=_includes(spec),
        more_status=_MISSING_TEXT.format(caps=spec.name.upper()) if spec.functions else "",
        error="  if (status && options->error) memcpy(options->error, rt.error, sizeof rt.error);"
        if spec.functions
        else "",
        declarations=_declarations(spec),
        check_cpu=_check_cpu(spec),
        size_functions=_size_functions(spec) if spec.symbols else "",
        sizes_parameter=f"const {spec.name}_sizes *sizes," if spec.symbols else "",
        version=ABI_VERSION,
        io=max(1, len(io) + len(spec.pools)),
        pools="\n".join(f"  {line}" for line in pools.fill(spec, len(io), _weights(spec))),
        wrong="".join([" || !sizes" if spec.symbols else "", *wrong]),
        fill_io="\n".join(f"  {line}" for line in io),
        given=_given(spec),
        workspace=own,
        default_allocate="      memory = malloc(bytes + 63);" if spec.malloc else _NO_ARENA % spec.name.upper(),
        default_release=release,
        entry=f"{spec.prefix}_main" if spec.lang == "c" else spec.model["entry"],
        weights=_weights(spec),
    )


def _but(spec: PackageSpec) -> str:
    """Why the options may not be NULL."""
    handed = [*(["weights"] if spec.weights == "beside" else []), *(["functions"] if spec.functions else [])]
    return f" (not here: the {' and the '.join(handed)} are handed in)" if handed else ""


def _includes(spec: PackageSpec) -> str:
    headers = [*(["stdlib"] if spec.malloc else []), *(["string"] if spec.functions else [])]
    return "\n".join(f"#include <{name}.h>" for name in headers)


def _fields(tensors: Sequence[PackedTensor], qualifier: str) -> str:
    """The fields of a struct, each with its shape; a struct in C has at least one."""
    rows = [f"  {qualifier}{t.type} *{t.field}; /* {t.shape_text.replace('*/', '')}, {t.dtype} */" for t in tensors]
    return "\n".join(rows) or "  char none; /* the model has none */"


def _sizes(spec: PackageSpec) -> str:
    sizes: list[str] = []
    for field, name, low, high, step in spec.symbols:
        steps = f" in steps of {step}" if step > 1 else ""
        sizes.append(f"  int64_t {field}; /* {name.replace('*/', '')}: {low} to {high}{steps} */")

    def ranks(tensors: Sequence[PackedTensor]) -> str:
        rows = [f"  int64_t {t.field}[{max(1, len(t.shape))}]; /* {t.shape_text} */" for t in tensors]
        return "\n".join(rows) or "  char none;"

    return _SIZES.format(
        name=spec.name,
        caps=spec.name.upper(),
        sizes="\n".join(sizes),
        shapes=ranks(spec.inputs),
        output_shapes=ranks(spec.outputs),
    )


def _size_functions(spec: PackageSpec) -> str:
    symbols = spec.symbols
    return _SIZE_FUNCTIONS.format(
        name=spec.name,
        caps=spec.name.upper(),
        prefix=spec.prefix,
        count=len(symbols),
        given=", ".join(f"shapes->{t.field}" for t in spec.inputs),
        to=", ".join(f"shapes->{t.field}" for t in spec.outputs),
        found="\n".join(f"  sizes->{field} = found[{k}];" for k, (field, *_) in enumerate(symbols)),
        known=", ".join(f"sizes->{field}" for field, *_ in symbols),
    )


def _declarations(spec: PackageSpec) -> str:
    """The program's own functions, and the runtime struct where the header does not show it."""
    lines: list[str] = []
    if spec.threads == 1:
        lines.append(C_DECLARATIONS.partition("/* A runtime on")[0].rstrip())
    entry = f"{spec.prefix}_main" if spec.lang == "c" else spec.model["entry"]
    lines.append(f"int32_t {entry}(void *const *io, const void *weights, void *workspace, mlc_runtime *rt);")
    if spec.lang == "c":
        if spec.weights == "embed":
            lines.append(f"extern const uint64_t {spec.prefix}_weights[];")
    else:
        lines.append(f"int32_t {spec.prefix}_check_cpu(char *message, size_t bytes);")
        if spec.weights == "embed":
            lines.append(f"extern const void *const {spec.prefix}_weights_at;")
    if spec.symbols:
        lines += [
            f"int32_t {spec.prefix}_symbols(const int64_t *const *shapes, int64_t *symbols);",
            f"void {spec.prefix}_output_shapes(const int64_t *symbols, int64_t *const *shapes);",
            f"int64_t {spec.prefix}_workspace_bytes(const int64_t *symbols, int32_t threads);",
        ]
    return "\n".join(lines) + "\n"


def _check_cpu(spec: PackageSpec) -> str:
    if spec.lang == "c":
        return "  if (message && bytes) message[0] = 0;\n  return 0;"
    return f"  return {spec.prefix}_check_cpu(message, bytes);"


def _given(spec: PackageSpec) -> str:
    """The checks of what else the caller hands in."""
    invalid = f"return {spec.name.upper()}_INVALID;"
    lines: list[str] = []
    for field, _, low, high, step in spec.symbols:
        steps = f" || sizes->{field} % {step}" if step > 1 else ""
        lines.append(f"if (sizes->{field} < {low} || sizes->{field} > {high}{steps}) {invalid}")
    if spec.weights == "beside":
        needed = pools.weights_needed(spec)
        wrong = f"({needed}) && is_wrong(options->weights, 64)" if needed else "is_wrong(options->weights, 64)"
        lines.append(f"if ({wrong}) {invalid}")
    lines += [f"if ({condition}) {invalid}" for condition in pools.wrong(spec)]
    if spec.functions:
        lines.append(f"if ({functions.missing(spec)}) return {spec.name.upper()}_MISSING_FUNCTION;")
    if spec.threads > 1:
        lines += [
            "if (options->runtime) {",
            "  rt = *options->runtime; /* a copy: the scratch is this call's own */",
            f"  if (rt.version != {ABI_VERSION} || rt.threads < 1 || !rt.parallel_for) {invalid}",
            "  rt.scratch_stride = LOCAL_BYTES;",
            "}",
        ]
    if spec.functions:
        lines.append("rt.functions = options->functions, rt.error[0] = 0;")
    return "\n".join(f"  {line}" for line in lines)


def _weights(spec: PackageSpec) -> str:
    if spec.weights == "beside":
        return "options->weights"
    return f"{spec.prefix}_weights" if spec.lang == "c" else f"{spec.prefix}_weights_at"
