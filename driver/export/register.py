"""`<prefix>_register`: a C program gives a model the functions that it calls by name."""

from __future__ import annotations

from collections.abc import Sequence

from mlc.driver.export.sizes import EINVAL
from mlc.support.abi import FUNCTION_ENTRY_BYTES

_REGISTER = """
@{prefix}_functions = internal global [{bytes} x i8] zeroinitializer, align 8
{strings}
declare i32 @strcmp(ptr, ptr)

define i32 @{prefix}_register(ptr %name, ptr %function) {{
{tests}
  ret i32 {einval}
}}
"""
_TEST = """\
test{k}:
  %differs{k} = call i32 @strcmp(ptr %name, ptr @{prefix}_name{k})
  %is{k} = icmp eq i32 %differs{k}, 0
  br i1 %is{k}, label %found{k}, label %{next}
found{k}:
  %at{k} = getelementptr i8, ptr @{prefix}_functions, i64 {offset}
  store ptr %function, ptr %at{k}, align 8
  ret i32 0
"""


def register_text(names: Sequence[str], prefix: str) -> str:
    """The LLVM IR of a table with an entry for each name, and of the function that sets an entry."""
    size, last = FUNCTION_ENTRY_BYTES, len(names) - 1
    strings = [
        f'@{prefix}_name{k} = internal constant [{len(name) + 1} x i8] c"{name}\\00"' for k, name in enumerate(names)
    ]
    tests = [
        _TEST.format(k=k, prefix=prefix, offset=size * k, next="unknown" if k == last else f"test{k + 1}")
        for k in range(len(names))
    ]
    return _REGISTER.format(
        prefix=prefix,
        bytes=size * len(names),
        strings="\n".join(strings),
        tests="".join(tests) + "unknown:",
        einval=EINVAL,
    )
