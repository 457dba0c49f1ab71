"""compare_model: a model compiled with records is timed beside the default only if the programs differ."""

from pathlib import Path

import pytest
import small_model

from mlc.tuning.extract import extract_tasks
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.whole import compare_model

OPTIONS = {"threads": 1}


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))


def test_schedules_that_differ_in_their_grid_alone_are_compared(tmp_path: Path) -> None:
    """The summaries of two schedules with one register tile and two grids are the same text; their code differs."""
    model, records = small_model.write(tmp_path, small_model.ONE_TEXT.replace("<4x", "<96x")), tmp_path / "r.db"
    found = []
    for rows in (1, 4):  # the grid that the cost model chooses depends on the machine: it is one of these at most
        with Database(records) as database:
            (task,) = extract_tasks(model, **OPTIONS)
            values = {**task.space.default, "grid_rows": rows}
            database.keep(task, values, Comparison(1e-6, 2e-6, 1.9, 2.1, 15))
        found.append(compare_model(model, records, OPTIONS))
    assert any(isinstance(one, Comparison) for one in found), found


def test_one_program_is_not_compared_with_itself(tmp_path: Path) -> None:
    model, records = small_model.write(tmp_path), tmp_path / "r.db"
    Database(records).close()
    assert compare_model(model, records, OPTIONS) == "the whole model: its program is that of the default schedules"
