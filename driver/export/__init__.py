"""
A compiled model as a C library: `.so`, `.a` or `.o` with a header, for programs without Python.

In: an artefact. Out: files. `library` links them, `sizes` writes the functions that compute symbolic
sizes, `c_header` the header.
"""
