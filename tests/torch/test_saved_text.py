"""The text of sizes in exported programs: read as expressions and conditions, never evaluated."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from mlc.frontends.torch.saved.text import check_expression, read_condition  # noqa: E402


@pytest.mark.parametrize(
    "text", ["Add(Mul(Integer(4), Symbol('s27', integer=True)), Integer(-2))", "2*s0 + 4", "Max(1, FloorDiv(s0, 2))"]
)
def test_expressions(text):
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    ["Symbol('s0').name", "[].clear()", "lambda: 1", "Pow(Integer(10), Integer(100000))", "2**2**2**100", "f'{1}'",
     "Float('x')", "Integer('1')", "(" * 5000, "print(s0)", "s0 if s1 else s2", "1 + " * 9999 + "1"],
)  # fmt: skip
def test_what_is_no_expression(text):
    with pytest.raises(ValueError, match="expected"):
        check_expression(text)


def test_conditions_are_computed():
    found = {("a", 0): 6, ("b_0", 1): 4}

    def truth(text):
        return bool(read_condition(text, lambda words, axis: found["_".join(words), axis]))

    assert truth("L['a'].size()[0] > L['b'][0].size()[1]")
    assert truth("not (L['a'].size()[0] % 4) == 0 and max(L['a'].size()[0], 9) == 9")
    assert truth("math.trunc((L['a'].size()[0] / 4)) == 1 or False")
    assert truth("min(L['a'].size()[0], 2) ** 3 - 1 == 7")
    assert not truth("L['a'].size()[0] // 4 != 1")
