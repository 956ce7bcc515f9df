"""A merge queue gets its verdict, and a change of documents alone gets it without a GPU: by the
written workflows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.actions import ROOT, WORKFLOWS, Machine, Yaml, condition, filled, load, pull_request
from support.repository import Repository

pytestmark = pytest.mark.behaviour

TEMPLATES = ROOT / "perfgate" / "init" / "files"
BOTH = pytest.mark.parametrize("folder", [WORKFLOWS, TEMPLATES], ids=["ours", "init's"])
QUEUED = {
    "event_name": "merge_group",
    "repository": "ada/engine",
    "ref": "refs/heads/gh-readonly-queue/main/pr-7-0",
    "sha": "f" * 40,
    "event": {
        "action": "checks_requested",
        "merge_group": {"base_ref": "refs/heads/main", "base_sha": "e" * 40},
    },
}


def of(folder: Path, name: str) -> Yaml:
    return load(folder / f"{name}.yml")


@BOTH
def test_a_merge_queue_is_gated_once_and_gets_the_required_check(folder: Path) -> None:
    started = [
        name
        for name in ("perfgate", "perfgate-approved")
        if "merge_group" in of(folder, name)["on"]
    ]
    assert started == ["perfgate"]
    called = of(folder, "perfgate-gate")["jobs"]
    known = {
        "github": QUEUED,
        "needs": {"changes": {"result": "skipped"}, "gate": {"result": "success"}},
    }
    assert condition(called["gate"]["if"], known)
    assert condition(called["verdict"]["if"], known)
    (checkout,) = (
        step
        for step in called["gate"]["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    )
    assert filled(checkout["with"]["ref"], known) == "f" * 40
    group = of(folder, "perfgate")["concurrency"]["group"]
    assert filled(group, known) == "perfgate-refs/heads/gh-readonly-queue/main/pr-7-0"
    assert not condition(
        of(folder, "perfgate-comment")["jobs"]["comment"]["if"],
        {"github": {"event": {"workflow_run": {"event": "merge_group", "conclusion": "success"}}}},
    )


class Change:
    """A change of a repository, as the job that looks at it sees it."""

    def __init__(self, folder: Path, workflows: Path) -> None:
        self.repository = Repository(folder / "top")
        files = (
            "docs/a.md",
            "README.md",
            "src/x.py",
            ".github/workflows/perfgate-gate.yml",
            "docs/odd name/ü.md",
        )
        self.base = self.repository.commit(dict.fromkeys(files, "1\n"))
        self.job = of(workflows, "perfgate-gate")["jobs"]["changes"]
        self.machine = Machine(folder / "runner", self.repository.top)

    def measured(self, unmeasured: str, *, base: str | None = None, within: str = "") -> bool:
        """Whether the gate would run."""
        (step,) = (one for one in self.job["steps"] if one.get("id") == "look")
        event = pull_request()
        event["event"]["pull_request"]["base"] = {"sha": self.base if base is None else base}
        done = self.machine.run(
            step, {"github": event, "inputs": {"unmeasured": unmeasured, "measured": within}}
        )
        assert done.status == 0, done.log
        known = {"steps": {"look": {"outputs": dict(done.outputs)}}, "github": event}
        measure = filled(self.job["outputs"]["measure"], known)
        gate = of(WORKFLOWS, "perfgate-gate")["jobs"]["gate"]
        needs = {"changes": {"result": "success", "outputs": {"measure": measure}}}
        return condition(gate["if"], {"github": event, "needs": needs})


DOCUMENTS = "docs/**\n**/*.md\n"


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """A change of nothing yet."""
    return Change(tmp_path, WORKFLOWS)


@pytest.mark.parametrize(
    ("files", "measured"),
    [
        ({"docs/a.md": "2\n"}, False),
        ({"README.md": "2\n", "docs/odd name/ü.md": "2\n", "docs/new.png": "x"}, False),
        ({"src/x.py": "2\n"}, True),
        ({"docs/a.md": "2\n", "src/x.py": "2\n"}, True),
        ({"src/data.mdx": "2\n"}, True),
        ({"documents.py": "2\n"}, True),
        ({".github/workflows/perfgate-gate.yml": "2\n"}, True),
    ],
    ids=lambda one: ",".join(one) if isinstance(one, dict) else str(one),
)
def test_a_change_is_measured_unless_all_of_it_is_among_the_named_paths(
    change: Change, files: dict[str, str], measured: bool
) -> None:
    change.repository.commit(files)
    assert change.measured(DOCUMENTS) is measured
    assert change.measured("\n \n") is True, "no paths are named"


@pytest.mark.parametrize(
    ("files", "measured"),
    [
        ({"src/x.py": "2\n"}, True),
        ({"other/x.py": "2\n"}, False),
        ({"src.py": "2\n"}, False),
        ({"src/a.md": "2\n"}, False),
        ({"other/x.py": "2\n", "odd [name]*/x.py": "2\n"}, True),
        ({".github/actions/perfgate/action.yml": "2\n"}, True),
    ],
    ids=lambda one: ",".join(one) if isinstance(one, dict) else str(one),
)
def test_a_project_of_several_is_measured_where_its_own_folders_are_changed(
    change: Change, files: dict[str, str], measured: bool
) -> None:
    change.repository.commit(files)
    assert change.measured(DOCUMENTS, within="src\nodd [name]*\n") is measured


@BOTH
def test_of_a_project_of_several_each_change_is_looked_at(folder: Path) -> None:
    known = {"github": pull_request(), "inputs": {"unmeasured": "", "measured": "src"}}
    assert condition(of(folder, "perfgate-gate")["jobs"]["changes"]["if"], known)


def test_a_list_that_names_everything_does_not_name_the_workflows(change: Change) -> None:
    change.repository.commit({".github/workflows/perfgate-gate.yml": "2\n"})
    assert change.measured("**") is True


def test_what_is_deleted_renamed_or_linked_is_a_change(change: Change) -> None:
    change.repository.git("mv", "src/x.py", "docs/x.md")
    change.repository.commit()
    assert change.measured(DOCUMENTS) is True


def test_what_the_base_has_gained_since_is_no_part_of_the_change(change: Change) -> None:
    change.repository.git("checkout", "--quiet", "-b", "topic")
    change.repository.commit({"docs/a.md": "2\n"})
    change.repository.git("checkout", "--quiet", "main")
    ahead = change.repository.commit({"src/x.py": "2\n"})
    change.repository.git("checkout", "--quiet", "topic")
    assert change.measured(DOCUMENTS, base=ahead) is False


@pytest.mark.parametrize("base", ["", "0" * 40, "no-such"])
def test_where_the_base_is_not_known_everything_is_measured(change: Change, base: str) -> None:
    change.repository.commit({"docs/a.md": "2\n"})
    assert change.measured(DOCUMENTS, base=base) is True


@BOTH
@pytest.mark.parametrize(
    ("event", "unmeasured", "looks"),
    [
        ("pull_request", "", False),
        ("pull_request", "docs/**", True),
        ("merge_group", "docs/**", True),
        ("push", "docs/**", False),
    ],
)
def test_a_change_is_looked_at_where_paths_are_named(
    folder: Path, event: str, unmeasured: str, looks: bool
) -> None:
    job = of(folder, "perfgate-gate")["jobs"]["changes"]
    known = {"github": {"event_name": event}, "inputs": {"unmeasured": unmeasured}}
    assert condition(job["if"], known) is looks


@BOTH
@pytest.mark.parametrize(
    ("measure", "result", "gates", "status"),
    [
        ("false", "skipped", "", 0),
        ("true", "skipped", "", 1),
        ("", "skipped", "", 1),
        ("false", "cancelled", "", 1),
        ("false", "failure", "", 1),
        ("", "success", "", 1),
        ("", "skipped", "2", 1),
        ("", "success", "1", 0),
    ],
)
def test_the_required_check_passes_unmeasured_only_where_the_change_was_looked_at(
    folder: Path, tmp_path: Path, measure: str, result: str, gates: str, status: int
) -> None:
    job = of(folder, "perfgate-gate")["jobs"]["verdict"]
    needs = {
        "changes": {"outputs": {"measure": measure}},
        "gate": {"result": result, "outputs": {"gates": gates}},
    }
    (tmp_path / "workspace").mkdir()
    machine = Machine(tmp_path / "runner", tmp_path / "workspace")
    first, *others = job["steps"]
    done = machine.run(first, {"needs": needs})
    assert done.status == status, done.log
    assert ("::error::" in done.log) is bool(status)
    assert ("perfgate-approved" in done.log) is (bool(status) and result == "skipped")
    unmeasured = (measure, result) == ("false", "skipped")
    known = {
        "steps": {
            "seen": {"outputs": dict(done.outputs)},
            "merge": {"outcome": "skipped" if unmeasured else "success"},
        }
    }
    run = [step for step in others if status == 0 and condition(step.get("if", "success()"), known)]
    assert run == ([] if status or unmeasured else others)
    assert bool(machine.summary_text) is unmeasured
