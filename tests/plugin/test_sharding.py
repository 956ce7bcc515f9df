"""Shards of a project's workloads: each measured by one gate, none by two, and what is gone missed
by one."""

from __future__ import annotations

import pytest
from support import records
from support.project import Project, loops

from perfgate.model.document import Shard
from perfgate.model.metric import Metric

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
IN_ORDER = ("alpha", "beta", "delta", "epsilon", "gamma")
"""By their ids."""


@pytest.fixture
def five(project: Project) -> Project:
    """A project of five unchanged workloads in two files, each with a baseline, on an H200."""
    project.gpus()
    project.workload(loops(*NAMES[:3]), file="first.py")
    project.workload(loops(*NAMES[3:]), file="second.py")
    for name in NAMES:
        project.bless(project.baseline(name))
    project.measures(records.run())
    return project


CHOSEN = ("-k", "alpha or beta or delta or gamma")


@pytest.mark.parametrize(
    ("chosen", "shard", "names"),
    [
        ((), "1/2", ["alpha", "gamma", "delta"]),
        ((), "2/2", ["beta", "epsilon"]),
        ((), "1/1", [*NAMES]),
        (CHOSEN, "1/2", ["alpha", "delta"]),
        (CHOSEN, "2/2", ["beta", "gamma"]),
        (("workloads/first.py",), "2/2", ["beta"]),
    ],
)
def test_shards_take_turns_by_name_at_what_was_chosen_and_measure_each_workload_once(
    five: Project, chosen: tuple[str, ...], shard: str, names: list[str]
) -> None:
    asked = five.measures(records.run())
    assert five.gate(*chosen, f"--perfgate-shard={shard}").status == 0
    assert list(dict.fromkeys(asked)) == names


def test_collect_only_shows_the_shard(five: Project) -> None:
    seen = five.gate("--collect-only", "--perfgate-shard=2/3")
    assert seen.status == 0
    assert "collected 5 items / 3 deselected / 2 selected\n" in seen.out
    assert [name for name in NAMES if f"<WorkloadItem {name}>" in seen.out] == ["beta", "gamma"]


def test_the_document_says_which_shard_it_is_of(five: Project) -> None:
    found = five.document("--perfgate-shard=2/3", "--perfgate-label=h200 2/3")
    assert (found.label, found.shard) == (
        "h200 2/3",
        Shard(index=2, of=3, workloads=IN_ORDER),
    )
    assert [one.verdict.workload for one in found.workloads] == ["beta", "gamma"]
    assert five.document().shard is None


def test_a_baseline_without_a_workload_shuts_the_first_shard_and_no_other(five: Project) -> None:
    five.bless(five.baseline("gone"))
    first, second, third = (five.gate(f"--perfgate-shard={index}/3") for index in (1, 2, 3))
    assert (first.status, second.status, third.status) == (1, 0, 0)
    assert "orphan" in first.codes


def test_the_document_says_what_all_shards_divide_and_what_this_one_skipped(five: Project) -> None:
    marked = loops("zeta", "eta").replace("@workload", "@pytest.mark.skip\n@workload")
    five.workload(f"import pytest\n{marked}", file="third.py")
    left = sorted([*IN_ORDER, "zeta", "eta"])
    left.remove("alpha")
    first, second = (
        five.document("-k", "not alpha", f"--perfgate-shard={index}/2") for index in (1, 2)
    )
    assert left == ["beta", "delta", "epsilon", "eta", "gamma", "zeta"]
    assert first.shard == Shard(index=1, of=2, workloads=tuple(left))
    assert second.shard == Shard(index=2, of=2, workloads=tuple(left), skipped=("eta", "zeta"))
    assert (first.opens_gate, second.opens_gate) == (True, True)


def test_a_shard_that_did_not_come_to_divide_says_nothing_of_it(five: Project) -> None:
    found = five.document("-k", "alpha", "--perfgate-shard=1/2")
    assert (found.opens_gate, found.shard) == (False, Shard(index=1, of=2))


@pytest.mark.parametrize("index", [1, 2])
def test_a_file_that_skips_itself_is_missed_by_the_shard_that_it_skipped_itself_in(
    five: Project, index: int
) -> None:
    """On the runners of the other shards it need not skip itself."""
    five.workload(
        f'import pytest\npytest.skip("no data", allow_module_level=True)\n{loops("zeta")}',
        file="third.py",
    )
    assert five.gate(f"--perfgate-shard={index}/2").status == 0
    five.bless(five.baseline("zeta"))
    seen = five.gate(f"--perfgate-shard={index}/2")
    assert (seen.status, "perhaps-skipped" in seen.codes) == (1, True)


def test_a_workload_that_a_hook_drops_is_missed_by_its_own_shard(five: Project) -> None:
    five.write(
        "conftest.py",
        "def pytest_collection_modifyitems(items):\n "
        "   items[:] = [i for i in items if i.name != 'beta']\n",
    )
    first, second = (five.gate(f"--perfgate-shard={index}/2") for index in (1, 2))
    assert (first.status, second.status) == (0, 1)
    assert "expected-not-measured" in second.codes


def test_all_shards_share_the_error_of_one_gate(five: Project) -> None:
    found = five.document("--perfgate-shard=2/2")
    assert [one.verdict.workloads for one in found.workloads] == [5, 5]
    assert "error-shared" in five.gate("--perfgate-shard=2/2").codes


def test_the_time_budget_is_for_the_workloads_of_the_shard(five: Project) -> None:
    """Three runs of 60 s each are affordable twice, not five times."""
    slower = records.run({Metric.STEP_MS: 12.34 * 1.02})
    five.measures(slower.model_copy(update={"wall_s": 60.0}))
    found = five.document(
        "--perfgate-shard=2/2", "--perfgate-time-budget=600", "--perfgate-max-runs=5"
    )
    assert [len(one.runs) for one in found.workloads] == [5, 5]


@pytest.mark.parametrize("value", ["", "2", "0/2", "3/2", "1/0", "-1/2", "a/b"])
def test_a_shard_that_says_nothing_is_a_usage_error(five: Project, value: str) -> None:
    seen = five.gate(f"--perfgate-shard={value}")
    assert (seen.status, seen.codes) == (4, {"shard-invalid"})


@pytest.mark.parametrize(
    "arguments", [("1/6",), ("6/6",), ("1/6", "--collect-only"), ("1/2", "-k", "alpha")]
)
def test_more_shards_than_workloads_is_a_usage_error_of_each(
    five: Project, arguments: tuple[str, ...]
) -> None:
    asked = five.measures(records.run())
    shard, *others = arguments
    seen = five.gate(f"--perfgate-shard={shard}", *others)
    assert (seen.status, asked) == (4, [])
    assert "shards-too-many" in seen.codes
    assert "WorkloadItem" not in seen.out


@pytest.mark.parametrize("given", ["missing.json", "pyproject.toml"])
def test_a_base_that_cannot_be_read_is_an_error_of_usage(five: Project, given: str) -> None:
    seen = five.gate(f"--perfgate-base={given}")
    assert (seen.status, seen.codes) == (4, {"base-unreadable"})
