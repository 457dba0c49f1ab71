"""Old module names work for one release, with a warning, and give the very same modules."""

import importlib
import subprocess
import sys

import pytest

from mlc import moved


@pytest.mark.parametrize("old", sorted(moved.MOVED))
def test_every_row_leads_to_a_module(old):
    found = moved.new_name(f"mlc.{old}")
    assert found == f"mlc.{moved.MOVED[old]}"
    if "torch" not in found:
        assert importlib.import_module(found) is not None


def test_a_module_inside_of_a_moved_package_is_found():
    assert moved.new_name("mlc.tools.report.table") == "mlc.runtime.report.table"
    assert moved.new_name("mlc.dialects.loop") is None


def test_an_old_name_warns_and_is_the_same_module():
    code = (
        "import warnings, mlc.support.errors\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import mlc.passes.errors\n"
        "    from mlc.passes.errors import UserError\n"
        "assert mlc.passes.errors is mlc.support.errors\n"
        "assert mlc.support.errors.__spec__.name == 'mlc.support.errors'\n"
        "print(caught[0].category.__name__, caught[0].message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wanted = "DeprecationWarning mlc.passes.errors is now mlc.support.errors; the old name goes in the next release"
    assert done.stdout.strip() == wanted


def test_mlc_itself_uses_no_old_name():
    code = (
        "import warnings; warnings.simplefilter('error', DeprecationWarning)\n"
        "import mlc.tools.cli, mlc.tools.mlc_opt\n"
        "import mlc.driver.models.compile, mlc.driver.operator.build, mlc.driver.models.compilation\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_of_the_onnx_table_warn_where_they_stood():
    from mlc.frontends.onnx import node, register_op

    with pytest.warns(DeprecationWarning, match=r"is now mlc\.frontends\.onnx\.table\.register_op"):
        assert node.register_op is register_op
    with pytest.raises(AttributeError, match="onnx_table"):
        _ = node.onnx_table
