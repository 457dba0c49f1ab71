"""
Translation validation: `--validate-each` runs functions before and after each pass, `plan_check` checks memory plans;
`interpret` runs one function of a module of any level, `structure_diff` and `value_diff` compare two modules.

In: a module before and after a pass, or @main on buffers. Out: nothing, or an error that names the pass, the function
and the values. Kernels are run by the interpreters, as printed C99 or as machine code (`execute`).
"""
