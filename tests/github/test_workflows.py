"""The workflows' steps, taken from their files and run as a runner runs them: from a gate to a
blessed pull request.

The gates replay recorded captures, and GitHub is a server on this machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.actions import (
    ACTION,
    ROOT,
    WORKFLOWS,
    Done,
    Machine,
    Yaml,
    condition,
    filled,
    inputs_of_action,
    load,
    packed,
)
from support.rest import GitHub, finished_run

from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document

pytestmark = pytest.mark.behaviour

Runner = Callable[..., Machine]

README = (ROOT / "README.md").read_text(encoding="utf-8")


LOCKED = [
    "pip install -q --require-hashes -r .github/perfgate-lock.txt",
    "pip install -q --no-deps --no-build-isolation .",
]
"""What is asked of pip for perfgate alone."""


def job(workflow: str, name: str) -> Yaml:
    found: Yaml = load(WORKFLOWS / f"{workflow}.yml")["jobs"][name]
    return found


def step(workflow: str, name: str, title: str) -> Yaml:
    (found,) = (one for one in job(workflow, name)["steps"] if one.get("name") == title)
    assert isinstance(found, dict)
    return found


def contexts(machine: Machine, **more: object) -> dict[str, Any]:
    return {
        "runner": {"temp": str(machine.temp)},
        "github": {"token": machine.env.get("GITHUB_TOKEN")},
        **more,
    }


def installed(machine: Machine, workflow: str, name: str) -> list[str]:
    """Run a job's installation, and return what pip was asked for."""
    machine.ran.unlink(missing_ok=True)
    done = machine.run(step(workflow, name, "Install"), contexts(machine))
    assert done.status == 0, done.log
    return machine.ran.read_text("utf-8").splitlines()


def gated(
    machine: Machine, workflow: str, *, inputs: Mapping[str, str] | None = None, **matrix: object
) -> tuple[Done, dict[str, dict[str, bytes]]]:
    """Run the gate of a workflow by its action; return what came of it, and the artifacts: files by
    their path.

    Of the inputs are those that somebody gave who started the workflow by hand.
    """
    (use,) = (
        one
        for one in job(workflow, "gate")["steps"]
        if one.get("uses") == "./.github/actions/perfgate"
    )
    called = passed(machine, inputs or {}) if workflow == "perfgate-gate" else {}
    known = contexts(machine, matrix=matrix, inputs=called)
    known["inputs"] = inputs_of_action(
        **{name: filled(value, known) for name, value in use["with"].items()}
    )
    state, gate, artifacts = "success", None, {}
    for one in load(ACTION)["runs"]["steps"]:
        if not condition(one.get("if", "success()"), known, state=state):
            continue
        if "run" in one:
            done = machine.run(one, known)
            if one.get("id") == "gate":
                gate = done
                known["steps"] = {"gate": {"outputs": dict(done.outputs)}}
            state = state if done.status == 0 else "failure"
        else:
            paths = filled(one["with"]["path"], known).splitlines()
            artifacts[filled(one["with"]["name"], known)] = packed(paths, machine.workspace)
    assert gate is not None
    return gate, artifacts


def passed(machine: Machine, inputs: Mapping[str, str]) -> dict[str, str]:
    """What the workflow that is started hands to the one that it calls."""
    defaults = {
        name: declared["default"]
        for name, declared in load(WORKFLOWS / "perfgate-gate.yml")["on"]["workflow_call"][
            "inputs"
        ].items()
    }
    given = job("perfgate", "perfgate")["with"]
    assert given.keys() <= defaults.keys()
    return defaults | {
        name: filled(value, contexts(machine, inputs=inputs)) for name, value in given.items()
    }


def downloaded(artifacts: Mapping[str, Mapping[str, bytes]], prefix: str, folder: Path) -> None:
    """What download-artifact would leave of `pattern: <prefix>*`: a folder for each artifact."""
    for name, files in artifacts.items():
        for path, content in files.items() if name.startswith(prefix) else ():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_bytes(content)


def tracked(machine: Machine) -> dict[str, bytes]:
    """The files of the workspace's commit."""
    names = machine.git("ls-files").split()
    return {name: (machine.workspace / name).read_bytes() for name in names}


def merged(machine: Machine, gates: int | str) -> Done:
    shutil.rmtree(machine.temp / "merged", ignore_errors=True)
    needs = {"gate": {"outputs": {"gates": str(gates)}}}
    title = "Merge the gates into one verdict"
    return machine.run(step("perfgate-gate", "verdict", title), contexts(machine, needs=needs))


def verdict(machine: Machine) -> GateDocument:
    """The merged document."""
    return read_document((machine.temp / "merged" / "perfgate.json").read_text("utf-8"))


Ended = tuple[Done, dict[str, dict[str, bytes]]]
Gates = Callable[..., Ended]


@pytest.fixture(scope="module")
def gates(runner_in: Runner, tmp_path_factory: pytest.TempPathFactory) -> Gates:
    """Runs the gate of a pull request's workflow on a runner of its own, each that is asked for
    once."""

    @cache
    def run(what: str, *, branch: str = "main", shard: int = 1, shards: int = 1) -> Ended:
        machine = runner_in(tmp_path_factory.mktemp("gate"), what, branch=branch)
        assert installed(machine, "perfgate-gate", "gate") == ["pip install -q -e .[torch]"]
        return gated(machine, "perfgate-gate", gpu="h200", shard=shard, shards=shards)

    return run


# Shards


@pytest.mark.parametrize(
    ("what", "status", "mark"), [("unchanged", 0, "open"), ("regressed", 1, "shut")]
)
def test_shards_are_merged_into_one_verdict(
    runner: Runner, gates: Gates, what: str, status: int, mark: str
) -> None:
    machine = runner(what, branch="two")
    artifacts: dict[str, dict[str, bytes]] = {}
    for shard in (1, 2):
        done, found = gates(what, branch="two", shard=shard, shards=2)
        assert (done.status, done.outputs["outcome"]) == (status, mark), done.log
        artifacts |= found
    names = {f"{kind}perfgate-h200-{shard}" for kind in ("", "kept-") for shard in (1, 2)}
    assert set(artifacts) == names

    assert installed(machine, "perfgate-gate", "verdict") == LOCKED
    downloaded(artifacts, "perfgate-", machine.temp / "gates")
    done = merged(machine, 2)
    assert done.status == status, done.log
    four = {"perfgate.json", "page.json", "perfgate.html", "junit.xml"}
    assert {path.name for path in (machine.temp / "merged").iterdir()} == four
    document = verdict(machine)
    assert {one.verdict.workload: one.gate for one in document.workloads} == {
        "mlp": "perfgate-h200-1",
        "twin": "perfgate-h200-2",
    }
    assert document.opens_gate is (mark == "open")
    assert f"{mark}\n" in machine.summary_text.splitlines(keepends=True)[0]


@pytest.fixture
def laid(runner: Runner, gates: Gates) -> Callable[..., Machine]:
    """Makes a runner of the verdict's job, with what an open gate has published."""

    def make() -> Machine:
        machine = runner("unchanged")
        installed(machine, "perfgate-gate", "verdict")
        done, artifacts = gates("unchanged")
        assert done.status == 0, done.log
        downloaded(artifacts, "perfgate-", machine.temp / "gates")
        return machine

    return make


def judged(machine: Machine, *, result: str, gates: str) -> tuple[str, str, list[str]]:
    """Run the verdict's job after gates; return how it ended, its log, and the artifacts that it
    published."""
    known = contexts(
        machine, needs={"gate": {"result": result, "outputs": {"gates": gates}}}, steps={}
    )
    state, log, published = "success", "", []
    for one in job("perfgate-gate", "verdict")["steps"]:
        outcome, outputs = "skipped", dict[str, str]()
        if condition(one.get("if", "success()"), known, state=state):
            outcome = "success"
            if "run" in one:
                done = machine.run(one, known)
                log += done.log
                outcome, outputs = "success" if done.status == 0 else "failure", dict(done.outputs)
            elif one["uses"].startswith("actions/upload-artifact@"):
                published.append(one["with"]["name"])
        known["steps"][one.get("id", "")] = {"outcome": outcome, "outputs": outputs}
        state = "failure" if outcome == "failure" else state
    return state, log, published


@pytest.mark.parametrize(
    ("result", "expected", "state"),
    [
        ("success", 1, "success"),
        ("failure", 1, "failure"),
        ("cancelled", 2, "failure"),
        ("success", 2, "failure"),
    ],
)
def test_the_verdict_is_that_of_the_gates_that_there_should_be(
    laid: Callable[..., Machine], result: str, expected: int, state: str
) -> None:
    """Nor is it open where a gate's job failed next to an open gate, such as in clearing up."""
    ended, log, published = judged(laid(), result=result, gates=str(expected))
    assert (ended, published) == (state, ["perfgate"]), log
    assert ("::error::" in log.splitlines()[-1]) is (result == "failure")


# A pull request


@pytest.mark.parametrize(("inputs", "runs"), [({}, 5), ({"runs": "6"}, 6)])
def test_a_gate_that_is_started_by_hand_measures_as_often_as_is_asked(
    runner: Runner, gates: Gates, inputs: Mapping[str, str], runs: int
) -> None:
    if inputs:
        machine = runner("unchanged")
        installed(machine, "perfgate-gate", "gate")
        done, artifacts = gated(
            machine, "perfgate-gate", inputs=inputs, gpu="h200", shard=1, shards=1
        )
    else:
        done, artifacts = gates("unchanged")
    assert done.status == 0, done.log
    ((_, kept),) = artifacts["kept-perfgate-h200-1"].items()
    assert len(json.loads(kept)["runs"]) == runs


def test_a_new_workload_is_gated_commented_on_and_blessed(
    runner: Runner, hub: GitHub, tmp_path: Path
) -> None:
    machine = runner("baseline", branch="unblessed")
    installed(machine, "perfgate-gate", "gate")
    sha = machine.git("rev-parse", "HEAD")
    done, artifacts = gated(machine, "perfgate-gate", gpu="h200", shard=1, shards=1)
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log
    downloaded(artifacts, "perfgate-", machine.temp / "gates")
    assert merged(machine, 1).status == 1

    files = tracked(machine)
    hub.commit({"README": "the base"}, branch="main")
    hub.commit(files, branch="faster", sha=sha)
    hub.workflows.add("perfgate.yml")
    number = hub.pull(branch="faster", sha=sha)
    run = hub.run(head_sha=sha, head_branch="faster", conclusion="failure")
    hub.artifact(run, "perfgate", packed([str(machine.temp / "merged")], machine.workspace))
    for name, content in artifacts.items():
        hub.artifact(run, name, content)

    # The comment, by the workflow that has the token.
    assert installed(machine, "perfgate-comment", "comment") == LOCKED
    event = finished_run(
        hub.url(f"/actions/runs/{run}/artifacts"), run=run, sha=sha, conclusion="failure"
    )
    machine.env |= hub.env_of("workflow_run", event, tmp_path)
    done = machine.run(
        step("perfgate-comment", "comment", "Comment on the pull request"), contexts(machine)
    )
    assert done.status == 0, done.log
    (comment,) = hub.comments[number]
    assert "NO_BASELINE" in str(comment["body"])
    assert "`mlp`" in str(comment["body"])

    # The blessing, next to a checkout of the branch that is only read.
    branch = machine.workspace / "branch"
    subprocess.run(
        ["git", "clone", "-q", "-b", "unblessed", str(machine.workspace), str(branch)], check=True
    )
    (branch / "workloads" / "conftest.py").unlink(missing_ok=True)
    assert installed(machine, "perfgate-bless", "bless") == [
        "pip install -q --require-hashes -r trusted/.github/perfgate-lock.txt",
        "pip install -q --no-deps --no-build-isolation ./trusted",
    ]
    inputs = {
        "workload": "mlp",
        "reason": "first H200 baseline; `touch x` $(touch y)",
        "accept-regression": False,
    }
    event = {
        "inputs": inputs,
        "repository": {"full_name": hub.repository, "default_branch": "main"},
    }
    machine.env |= hub.env_of(
        "workflow_dispatch",
        event,
        tmp_path,
        GITHUB_REF="refs/heads/faster",
        GITHUB_SHA=sha,
        GITHUB_ACTOR="ada",
    )
    hub.permissions["ada"] = "write"
    machine.summary.unlink(missing_ok=True)
    title = "Bless what the gate of this commit has kept"
    done = machine.run(step("perfgate-bless", "bless", title), contexts(machine, inputs=inputs))
    assert done.status == 0, done.log
    assert hub.branches["faster"] != sha
    blessed = hub.content("faster")
    assert set(blessed) - set(files) == {"baselines/nvidia-h200/mlp.json"}
    blessing = json.loads(blessed["baselines/nvidia-h200/mlp.json"])["blessing"]
    assert (blessing["by"], blessing["reason"]) == ("ada via GitHub", inputs["reason"])
    assert blessing["run_url"] == f"https://github.example/octo/loops/actions/runs/{run}"
    assert [(one.workflow, one.ref) for one in hub.dispatched] == [("perfgate.yml", "faster")]
    assert not (branch / "x").exists()
    assert not (branch / "y").exists()

    # The gate of the new commit.
    target = machine.workspace / "baselines" / "nvidia-h200" / "mlp.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(blessed["baselines/nvidia-h200/mlp.json"])
    shutil.rmtree(branch)
    machine.env["PERFGATE_REPLAY"] = "unchanged"
    installed(machine, "perfgate-gate", "gate")
    done, _ = gated(machine, "perfgate-gate", gpu="h200", shard=1, shards=1)
    assert (done.status, done.outputs["outcome"]) == (0, "open"), done.log


# The base branch


def test_a_scheduled_gate_adds_its_occasion_by_pull_request(
    runner: Runner, hub: GitHub, tmp_path: Path
) -> None:
    machine = runner("unchanged")
    installed(machine, "perfgate-occasions", "gate")
    sha = machine.git("rev-parse", "HEAD")
    done, artifacts = gated(machine, "perfgate-occasions", gpu="h200")
    assert done.status == 0, done.log
    hub.commit(tracked(machine), branch="main", sha=sha)
    run = hub.run(
        head_sha=sha, head_branch="main", workflow="perfgate-occasions.yml", event="schedule"
    )
    for name, files in later(artifacts).items():
        hub.artifact(run, name, files)
    event = {
        "schedule": "17 3 * * 1,4",
        "repository": {"full_name": hub.repository, "default_branch": "main"},
    }
    machine.env |= hub.env_of("schedule", event, tmp_path, GITHUB_SHA=sha, GITHUB_RUN_ID=str(run))
    assert installed(machine, "perfgate-occasions", "occasions") == LOCKED
    machine.summary.unlink(missing_ok=True)
    title = "Add an occasion to each baseline, by pull request"
    done = machine.run(step("perfgate-occasions", "occasions", title), contexts(machine))
    assert done.status == 0, done.log
    (pull,) = hub.pulls.values()
    assert pull["title"]
    (branch,) = (name for name in hub.branches if name != "main")
    before, after = (
        json.loads(hub.content(name)["baselines/nvidia-h200/mlp.json"])["occasions"]
        for name in ("main", branch)
    )
    assert (len(before), len(after)) == (1, 2)
    assert hub.branches["main"] == sha


def later(artifacts: Mapping[str, Mapping[str, bytes]]) -> dict[str, dict[str, bytes]]:
    """The kept results as if they had been measured hours after the baseline, which was made a
    moment ago."""
    at = (datetime.now(UTC) + timedelta(hours=2)).isoformat()

    def moved(path: str, content: bytes) -> bytes:
        if not path.endswith("result.json"):
            return content
        return json.dumps(json.loads(content) | {"measured_at": at}).encode()

    return {
        name: {path: moved(path, text) for path, text in files.items()}
        for name, files in artifacts.items()
    }


# The project's own tests


def test_the_workflow_of_the_tests_runs_the_readmes_commands() -> None:
    runs = [one["run"].strip() for one in job("tests", "tests")["steps"] if "run" in one]
    shown = [
        README.partition(f"<!-- {marker} -->\n```\n")[2].partition("\n```")[0]
        for marker in ("demo", "tests")
    ]
    assert runs[:2] == shown
