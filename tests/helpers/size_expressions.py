"""Random size expressions, and building them from their parts."""

from hypothesis import strategies as st

expressions = st.recursive(
    st.one_of(st.integers(-9, 9).map(lambda n: ("int", n)), st.sampled_from(["H", "W"]).map(lambda s: ("sym", s))),
    lambda e: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*"]), e, e),
        st.tuples(st.sampled_from(["//", "%"]), e, st.integers(1, 8)),
    ),
    max_leaves=8,
)


def build(tree, symbols):
    kind, *rest = tree
    if kind == "int":
        return rest[0]
    if kind == "sym":
        return symbols[rest[0]]
    a = build(rest[0], symbols)
    b = rest[1] if isinstance(rest[1], int) else build(rest[1], symbols)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b}[
        kind
    ]()
