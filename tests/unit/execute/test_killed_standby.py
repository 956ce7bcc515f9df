"""What a killed gate's workers on standby have left."""

from __future__ import annotations

from pathlib import Path

from perfgate.execute.folder import remove_killed_runs
from perfgate.model.secrets import Cleaner
from perfgate.system.files import UNDERWAY, underway


def worker(standby: Path, name: str) -> Path:
    """The folder of one, as a killed gate leaves it."""
    folder = standby / name
    (folder / "nsys").mkdir(parents=True)
    (folder / "nsys" / "nsys.log").write_text("it printed this\n", encoding="utf-8")
    (folder / "imports").mkdir()
    (folder / "order.json").write_text("{}", encoding="utf-8")
    (folder / UNDERWAY).touch()
    return folder


def test_of_a_run_that_was_made_by_one_the_log_stays_where_the_run_is(tmp_path: Path) -> None:
    results, standby = tmp_path / "results", tmp_path / "standby"
    gate = results / "no-gpu" / "loop" / "20261129"
    gate.mkdir(parents=True)
    (gate.parent / "a-file").touch()
    (gate / "run-1").symlink_to(worker(standby, "taken"))
    (gate / "run-2").symlink_to(standby / "gone")
    worker(standby, "waiting")
    unmarked = worker(standby, "unmarked")
    (unmarked / UNDERWAY).unlink()
    living = worker(standby, "living")
    with underway(living):
        found = remove_killed_runs(results, Cleaner({}, ()))
        assert list(standby.iterdir()) == [living]
    assert found is not None
    assert (found.code, found.fields["runs"]) == ("killed-gate-removed", 1)
    run = gate / "run-1"
    assert not run.is_symlink()
    assert sorted(file.name for file in run.iterdir()) == ["order.json", "workload.log"]
