"""The files of a package by which other projects build it: Makefile, CMake, pkg-config, README."""

from __future__ import annotations

from mlc.codegen.link import library_flags
from mlc.driver.export.package.spec import PackageSpec

_C_RULES = """
OBJECTS = {objects}

build/%.o: src/%.c src/{name}_support.h include/{name}.h
\t@mkdir -p build
\t$(CC) -std=c99 $(WARNINGS) $(CFLAGS) -fPIC -Iinclude -Isrc -c $< -o $@

build/lib{name}.a: $(OBJECTS)
\t@rm -f $@
\t@ar rcs $@ $(OBJECTS)
"""
_C_LIBRARY = """\
add_library({name} STATIC
  {sources})
set_property(TARGET {name} PROPERTY C_STANDARD 99)
target_include_directories({name} PUBLIC include PRIVATE src)
target_link_libraries({name} PUBLIC m{pthread})
"""
_LIBRARY = """\
add_library({name} {kind} IMPORTED GLOBAL)
set_target_properties({name} PROPERTIES
  IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/{library}
  INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}}/include
  INTERFACE_LINK_LIBRARIES "m{pthread}")
"""


_EXTERNAL_RULE = """
{object}: {source}
\t@mkdir -p build
\t$(CC) -std=gnu99 -w $(CFLAGS) {flags} -fPIC -Isrc/external -Isrc -c $< -o $@
"""
_EXTERNAL_FLAGS = """\
set_source_files_properties(src/external/{name} PROPERTIES COMPILE_FLAGS
  "-std=gnu99 -w {flags} -I${{CMAKE_CURRENT_SOURCE_DIR}}/src/external")
"""


def _object_of(name: str) -> str:
    """The object of a file in src/external."""
    return f"build/{name.removesuffix('.c')}.o" if name.endswith(".c") else f"src/external/{name}"


def makefile(spec: PackageSpec, sources: list[str]) -> str:
    """The Makefile; `sources` are the names of the C files in src/ that the library is made of."""
    objects = [f"build/{name.removesuffix('.c')}.o" for name in sources]
    objects += [_object_of(name) for name, _ in spec.external]
    rules = "".join(
        _EXTERNAL_RULE.format(object=_object_of(name), source=f"src/external/{name}", flags=" ".join(flags))
        for name, flags in spec.external
        if name.endswith(".c")
    )
    beside = f"\tinstall -m 644 weights/{spec.name}.weights $(DESTDIR)$(PREFIX)/lib\n"
    return spec.filled(
        "Makefile",
        rules=_C_RULES.format(objects=" ".join(objects), name=spec.name) + rules if spec.lang == "c" else "",
        rpath="-Wl,-rpath,'$$ORIGIN/../lib' " if spec.lang == "so" else "",
        install_weights=beside if spec.weights == "beside" else "",
        function_libraries=_function_libraries(spec),
        function_flags="$(FUNCTION_LIBS) " if spec.registered else "",
    )


def cmake(spec: PackageSpec, sources: list[str]) -> str:
    """CMakeLists.txt."""
    pthread = "".join(f"{' ' if spec.lang == 'c' else ';'}{_cmake_name(name)}" for name in spec.links)
    if spec.lang == "c":
        names = [*sources, *(f"external/{name}" for name, _ in spec.external)]
        files = "\n  ".join(f"src/{name}" for name in names)
        library = _C_LIBRARY.format(name=spec.name, sources=files, pthread=pthread)
        library += "".join(_EXTERNAL_FLAGS.format(name=name, flags=" ".join(flags)) for name, flags in spec.external)
    else:
        kind = "SHARED" if spec.lang == "so" else "STATIC"
        library = _LIBRARY.format(name=spec.name, kind=kind, library=spec.library, pthread=pthread)
    arguments = f" ${{CMAKE_CURRENT_SOURCE_DIR}}/weights/{spec.name}.weights" if spec.weights == "beside" else ""
    libraries = "".join(f" {one}" for one in dict.fromkeys(one.library for one in spec.registered))
    text = spec.filled("CMakeLists.txt", library=library, functions=libraries)
    return text.replace("/test)", f"/test{arguments})")


def _cmake_name(library: str) -> str:
    """A library as CMake links it: a path, a name, or the linker's flag for the name of a file."""
    return library if "/" in library else f"-l:{library}" if ".so" in library else library


def _function_libraries(spec: PackageSpec) -> str:
    """The variable that says where the example and the check find the functions that the model calls."""
    if not spec.registered:
        return ""
    flags = " ".join(library_flags([one.library for one in spec.registered]))
    return f"# the functions of the example and the check that the model calls by name\nFUNCTION_LIBS ?= {flags}\n"


def pkg_config(spec: PackageSpec) -> str:
    """NAME.pc, which finds the package where it lies."""
    text = spec.filled("package.pc")
    return text.replace("libdir=${prefix}/lib", "libdir=${prefix}/build") if spec.lang == "c" else text


def readme(spec: PackageSpec) -> str:
    """README.md."""
    files = [f"| `{spec.library}` | the program{' and its weights' if spec.weights == 'embed' else ''} |"]
    if spec.lang == "c":
        files = ["| `src/` | the program as C99: one file for each kernel |"]
    if spec.weights == "beside":
        files.append(f"| `weights/{spec.name}.weights` | the weights, which the caller reads and hands in |")
    rows = ["| | field | name | shape | type |", "|---|---|---|---|---|"]
    for kind, tensors in (("input", spec.inputs), ("output", spec.outputs)):
        rows += [f"| {kind} | `{t.field}` | {t.name} | {t.shape_text} | {t.dtype} |" for t in tensors]
    caps = spec.name.upper()
    arena = f"`{spec.name}_workspace_bytes(sizes, threads)`" if spec.symbols else f"`{caps}_WORKSPACE_BYTES(threads)`"
    return spec.filled(
        "README.md",
        files="\n".join(files),
        tensors="\n".join(rows),
        where=" in a file of its own" if spec.weights == "beside" else " in the program",
        arena=arena,
        and_threads=" and a thread pool" if spec.threads > 1 else "",
    )
