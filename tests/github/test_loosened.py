"""A pull request that loosens its own gate: shown in summary, document and page, and shut until it
is approved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.actions import ACTION, Done, Machine, inputs_of_action, load

from perfgate.bless.gates import find_gates
from perfgate.bless.merge import merge
from perfgate.model.loosening import Direction

pytestmark = pytest.mark.behaviour

STEPS = {step["name"]: step for step in load(ACTION)["runs"]["steps"]}
Runner = Callable[..., Machine]
PYPROJECT = '[project]\nname = "engine"\nversion = "1"\n\n[tool.perfgate]\nab_run = "off"\n'


def commit(machine: Machine, files: Mapping[str, str | None]) -> str:
    """Write files, delete those that are None, commit, and return the SHA."""
    for name, text in files.items():
        if text is None:
            (machine.workspace / name).unlink()
        else:
            machine.write(name, text)
    machine.git("add", "--all")
    machine.git("commit", "--quiet", "-m", "a change")
    return machine.git("rev-parse", "HEAD")


def gated(machine: Machine, kind: str, event: Mapping[str, object], base: str = "") -> Done:
    """Gate as the run of an event does."""
    machine.event.write_text(json.dumps({**event, "repository": {"default_branch": "main"}}))
    machine.env |= {"GITHUB_EVENT_NAME": kind, "GITHUB_BASE_REF": base}
    return machine.run(STEPS["Gate"], {"inputs": inputs_of_action()})


def asked(
    machine: Machine, sha: str, *, label: str | None = None, kind: str = "pull_request"
) -> Done:
    """Gate as the run of a pull request does, for its head or for a label on it."""
    sent: dict[str, object] = {
        "action": "synchronize" if label is None else "labeled",
        "pull_request": {"number": 7, "head": {"sha": sha, "repo": {"full_name": "ada/engine"}}},
    }
    labelled = {} if label is None else {"label": {"name": label}}
    return gated(machine, kind, {**sent, **labelled}, "main" if kind == "pull_request" else "")


def directions(machine: Machine) -> dict[str, Direction]:
    loosening = machine.document.loosening
    assert loosening is not None
    return {one.what: one.direction for one in loosening.differences}


@pytest.fixture(scope="module")
def loosened(runner_in: Runner, tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str]:
    """A runner with a pull request that asks for one run and passes a larger loss; its workloads
    are unchanged."""
    machine = runner_in(tmp_path_factory.mktemp("loosened"), "unchanged")
    sha = commit(
        machine,
        {"pyproject.toml": f"{PYPROJECT}runs = 1\nmax_runs = 40\nbudgets = {{step_ms = 0.5}}\n"},
    )
    return machine, sha


def test_a_loosened_gate_is_shut_and_says_what_was_loosened(loosened: tuple[Machine, str]) -> None:
    machine, sha = loosened
    done = asked(machine, sha)
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log
    assert directions(machine) == {
        "setting runs": Direction.LOOSENS,
        "setting budget step_ms": Direction.LOOSENS,
        "setting max_runs": Direction.TIGHTENS,
    }
    found = machine.document
    assert [one.verdict.outcome for one in found.workloads] == ["PASSED"]
    page = (machine.folder / "perfgate.html").read_text("utf-8")
    for text in (machine.summary_text, page):
        assert "setting runs" in text
        assert "0.02" in text
        assert "0.5" in text
    # The verdict of all gates says it as well.
    gates, unread = find_gates([machine.folder])
    merged = merge(gates, unread=unread, at=found.ended_at)
    assert not merged.opens_gate
    assert merged.loosening == found.loosening


def test_the_label_opens_it_for_the_commit_of_its_event_alone(
    loosened: tuple[Machine, str],
) -> None:
    machine, sha = loosened
    assert asked(machine, "f" * 40, label="perfgate-approved").status == 1
    assert asked(machine, sha, label="bug").status == 1
    done = asked(machine, sha, label="perfgate-approved")
    assert (done.status, done.outputs["outcome"]) == (0, "open"), done.log
    assert directions(machine)["setting runs"] is Direction.LOOSENS


def test_a_dispatched_gate_is_no_way_around_it(loosened: tuple[Machine, str]) -> None:
    machine, sha = loosened
    assert asked(machine, sha, kind="workflow_dispatch").status == 1


def test_what_loosening_does_is_for_the_base_branch_to_say(runner: Runner) -> None:
    machine = runner("unchanged")
    sha = commit(machine, {"pyproject.toml": f'{PYPROJECT}runs = 2\nloosened = "warn"\n'})
    assert asked(machine, sha).status == 1
    assert directions(machine)["setting loosened"] is Direction.LOOSENS
    machine.git("update-ref", "refs/remotes/origin/main", "HEAD")
    machine.git("remote", "set-url", "origin", "/gone")
    sha = commit(machine, {"pyproject.toml": f"{PYPROJECT}runs = 1\n"})
    done = asked(machine, sha)
    assert (done.status, done.outputs["outcome"]) == (0, "open"), done.log
    assert directions(machine) == {
        "setting runs": Direction.LOOSENS,
        "setting loosened": Direction.TIGHTENS,
    }


def test_declarations_hooks_baselines_and_workflows_are_among_it(runner: Runner) -> None:
    machine = runner("unchanged", branch="two")
    baseline = machine.workspace / "baselines" / "nvidia-h200" / "twin.json"
    sha = commit(
        machine,
        {
            "workloads/small_loops.py": (machine.workspace / "workloads" / "small_loops.py")
            .read_text("utf-8")
            .replace(
                "steps=30, warmup=50)",
                "steps=30, warmup=50, budgets={'kernel_ms': 0.2}, timeout_s=900)",
            ),
            "workloads/twin.py": None,
            baseline.relative_to(machine.workspace).as_posix(): None,
            "conftest.py": "def pytest_collection_modifyitems(items):\n    items.sort(key=str)\n",
            "pytest.ini": "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n",
            ".github/workflows/gate.yml": "on: push\n# ./.github/actions/perfgate\n",
            ".github/workflows/docs.yml": "on: push\n",
        },
    )
    machine.git("update-ref", "refs/remotes/origin/main", "refs/remotes/origin/two")
    machine.git("remote", "set-url", "origin", "/gone")
    done = asked(machine, sha)
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log
    found = directions(machine)
    loosens = {what for what, direction in found.items() if direction is Direction.LOOSENS}
    assert loosens == {
        "workload mlp: budget kernel_ms",
        "workload mlp: timeout_s",
        "workload twin",
        "baseline twin on nvidia-h200",
        "conftest.py",
        "pytest addopts",
        "pytest configuration file",
        ".github/workflows/gate.yml",
    }
    assert "pytest markers" not in found
    assert any(reason.startswith("twin: ") for reason in machine.document.shut_by), (
        "main has a baseline of it"
    )
    # Approved, it is gone on purpose.
    done = asked(machine, sha, label="perfgate-approved")
    assert (done.status, done.outputs["outcome"]) == (0, "open"), done.log


def test_a_base_that_cannot_be_found_is_no_base_without_differences(
    runner: Runner, tmp_path: Path
) -> None:
    machine = runner("unchanged")
    sha = commit(machine, {"notes.txt": "nothing of the gate"})
    assert asked(machine, sha).status == 0
    assert directions(machine) == {}
    machine.git("remote", "set-url", "origin", str(tmp_path / "gone"))
    machine.git("update-ref", "-d", "refs/remotes/origin/main")
    assert asked(machine, sha).status == 1
    assert "origin/main" in machine.summary_text.replace("\\", "")


def test_a_base_whose_workloads_cannot_be_collected_loosens_whatever_the_change_is(
    runner: Runner,
) -> None:
    machine = runner("unchanged")
    commit(machine, {"workloads/conftest.py": "raise RuntimeError('broken here')\n"})
    machine.git("update-ref", "refs/remotes/origin/main", "HEAD")
    machine.git("remote", "set-url", "origin", "/gone")
    sha = commit(machine, {"workloads/conftest.py": None})
    assert asked(machine, sha).status == 1
    assert directions(machine) == {"this change": Direction.LOOSENS}
    assert "broken here" in machine.summary_text
    assert asked(machine, sha, label="perfgate-approved").status == 0


def test_a_merge_queue_is_held_to_its_branch_and_what_it_takes_is_approved(runner: Runner) -> None:
    machine = runner("unchanged")
    commit(machine, {"pyproject.toml": f"{PYPROJECT}runs = 2\n"})
    machine.git("update-ref", "refs/remotes/origin/release", "HEAD")
    machine.git("remote", "set-url", "origin", "/gone")
    commit(machine, {"pyproject.toml": f"{PYPROJECT}runs = 2\nbudgets = {{step_ms = 0.5}}\n"})
    group = {
        "base_ref": "refs/heads/release",
        "head_ref": "refs/heads/gh-readonly-queue/release/1",
    }
    done = gated(machine, "merge_group", {"action": "checks_requested", "merge_group": group})
    assert (done.status, done.outputs["outcome"]) == (0, "open"), done.log
    assert directions(machine) == {"setting budget step_ms": Direction.LOOSENS}
    loosening = machine.document.loosening
    assert loosening is not None
    assert loosening.base == "release"


def test_what_a_change_does_to_its_gate_is_shown_without_secrets(runner: Runner) -> None:
    token, password = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3", "Sw0rd-Fish-22"
    machine = runner("unchanged")
    machine.env["DB_PASSWORD"] = password
    ini = f"[pytest]\nodd = {token}\nodder = {password}\n"
    done = asked(machine, commit(machine, {"pytest.ini": ini}))
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log
    assert "odder" in machine.summary_text
    for secret in (token, password):
        assert secret not in machine.summary_text.replace("\\", "").replace("\u200b", "")
        assert secret not in done.log
