"""--validate-each compares kernels of unsigned bytes, which have no sign below the graph level."""

import pytest
from xdsl.passes import ModulePass

from mlc.dialects import te
from mlc.dialects.index import IndexMapAttr
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.lowering.graph_to_te.convert import ConvertGraphToTe
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

KERNEL = """
func.func private @k(%x: tensor<3x5xui8>, %y: tensor<3x5xui8>) -> tensor<5x3xui8> attributes {graph.kernel} {
  %0 = graph.maximum %x, %y : tensor<3x5xui8>
  %1 = graph.transpose %0 {axes = [1, 0]} : (tensor<3x5xui8>) -> tensor<5x3xui8>
  return %1 : tensor<5x3xui8>
}
"""


class Backwards(ConvertGraphToTe):
    """A bug: the rows of an operand are read backwards."""

    def apply(self, ctx, op) -> None:
        super().apply(ctx, op)
        read = next(r for r in op.walk() if isinstance(r, te.ReadOp))
        read.properties["map"] = IndexMapAttr.get([-read.map.data[0] + 2, *read.map.data[1:]])


def validated(conversion: ModulePass) -> ValidateInstrument:
    instrument = ValidateInstrument()
    run_passes(parse_module(KERNEL, "<test>"), make_context(), [conversion, "kernel-O3"], instruments=[instrument])
    return instrument


def test_the_conversion_to_te_is_compared() -> None:
    compared = []

    class Count:
        def before(self, module_pass, module) -> None:
            compared.append(instrument.compared)

    instrument = ValidateInstrument()
    passes = ["convert-graph-to-te", "te-inline"]
    run_passes(parse_module(KERNEL, "<test>"), make_context(), passes, instruments=[instrument, Count()])
    assert compared == [0, 1]


def test_a_bug_of_the_conversion_is_found() -> None:
    assert validated(ConvertGraphToTe()).unsure == []
    with pytest.raises(ResultChanged, match="'convert-graph-to-te' changed @k"):
        validated(Backwards())
