"""The ops that a wrong name may mean: by what it computes elsewhere, then by its spelling."""

import pytest

from mlc.dialects.graph import OPS
from mlc.dialects.graph.other_names import OTHER_NAMES, counterparts, did_you_mean_op
from mlc.frontends.onnx.table import converters


def test_the_table_names_graph_ops_and_each_other_name_once():
    assert [op for ops in OTHER_NAMES for op in ops.split() if f"graph.{op}" not in OPS] == []
    names = [name for others in OTHER_NAMES.values() for name in others.split()]
    assert sorted(names) == sorted(set(names))
    spelled = {op.removeprefix("graph.").replace("_", "") for op in OPS}
    assert [name for name in names if name in spelled] == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("graph.matmul", ["graph.batch_matmul", "graph.dense"]),
        ("aten.mm", ["graph.batch_matmul", "graph.dense"]),
        ("onnx.Gemm", ["graph.dense"]),
        ("graph.LeakyRelu", ["graph.leaky_relu"]),
        ("tosa.conv2d", ["graph.conv2d"]),
        ("relay.expand_dims", ["graph.reshape"]),
        ("stablehlo.logistic", ["graph.sigmoid"]),
        ("arith.addf", ["graph.add"]),
        ("math.exp", ["graph.exp"]),
        ("graph.xyzzy", []),
    ],
)
def test_a_name_of_another_compiler_has_counterparts(name, meant):
    assert counterparts(name, OPS) == meant


def test_most_onnx_ops_lead_to_a_graph_op():
    found = [name for domain, name in converters() if not domain and counterparts(f"onnx.{name}", OPS)]
    assert {"MatMul", "Conv", "Gemm", "BatchNormalization", "Squeeze", "ReduceMean", "Resize"} <= set(found)
    assert len(found) > 90


def test_spelling_decides_where_no_meaning_is_known():
    assert did_you_mean_op("graph.sofmax", OPS) == "; did you mean 'graph.softmax'?"
    assert did_you_mean_op("te.matmul", ["te.read", *OPS]) == ""
