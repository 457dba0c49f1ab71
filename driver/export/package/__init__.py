"""
`mlc package`: a directory with a compiled model that builds with make or CMake and a C compiler alone.

    spec.py          the facts of a package, the C names of the model's tensors
    interface.py     the header and the functions around the program: a struct of inputs, one of outputs
    programs.py      the example, the check on recorded values, the reader of weights
    project.py       Makefile, CMake, pkg-config, README
    c_source.py      the program as C99 (codegen/c/program), for packages of source
    functions.py     the C functions that the program calls by name: a struct of pointers
    pools.py         the memory pools: arrays that the caller may hand in
    c_calls.py       what kernels in C source call; c_external.py: other compilers' kernels in C source
    write.py         the directory

`templates/` holds the files as they are written, with $words for what differs from model to model.
"""

from mlc.driver.export.package.write import write_package

__all__ = ["write_package"]
