"""Text of C functions without what nobody reads: compilers warn of unused variables."""

import re
from collections import Counter

_SPLIT_DECLARATION = re.compile(r"^( *)(\w+) (\w+);\n\1\3 = ", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r" +(?:const )?\w+ (?:\*const |\*restrict |\*)?(\w+)(?:\[\d+\])?(?: = [^{}]*)?;")
_ARRAY = re.compile(r"( +)\w+ (\w+)\[\d+\];")
_STORE = re.compile(r" +(?:if \(.*\) )?(\w+)\[[^=]*\] = ")


def tidied(text: str) -> str:
    """
    A function in which each value is declared where it gets its value, and no variable is unused.

    An array that is written only is called used, which compilers take for it.
    """
    lines = _SPLIT_DECLARATION.sub(r"\1\2 \3 = ", text).split("\n")
    count = Counter(word for line in lines for word in _WORD.findall(line))
    while True:
        kept = [line for line in lines if not ((found := _VARIABLE.fullmatch(line)) and count[found[1]] == 1)]
        if len(kept) == len(lines):
            return "\n".join(_with_uses(lines, count))
        count = Counter(word for line in kept for word in _WORD.findall(line))
        lines = kept


def _with_uses(lines: list[str], count: Counter[str]) -> list[str]:
    """The lines of a function, each array that is only written cast to void behind its declaration."""
    stores = Counter(found[1] for line in lines if (found := _STORE.match(line)))
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        if (found := _ARRAY.fullmatch(line)) and count[found[2]] == 1 + stores[found[2]]:
            kept.append(f"{found[1]}(void){found[2]};")
    return kept
