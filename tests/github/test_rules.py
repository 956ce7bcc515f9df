"""The action and the workflows of this repository: valid, without findings, and safe on self-hosted
runners."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.actions import ACTION, ROOT, WORKFLOWS, condition, filled, load, pull_request
from support.workflow_rules import broken

pytestmark = pytest.mark.behaviour

FILES = [*sorted(WORKFLOWS.glob("*.yml")), ACTION]
BIN = Path(sys.executable).parent


def asked(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )


def test_workflows_and_action_are_those_that_there_are() -> None:
    gates = {"perfgate", "perfgate-approved", "perfgate-gate"}
    names = gates | {"perfgate-bless", "perfgate-comment", "perfgate-occasions", "tests"}
    assert {file.stem for file in FILES} == names | {"action"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_valid_by_its_published_schema(file: Path) -> None:
    schema = "vendor.github-actions" if file == ACTION else "vendor.github-workflows"
    done = asked(str(BIN / "check-jsonschema"), "--builtin-schema", schema, str(file))
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n"), (
        done.stdout + done.stderr
    )


def test_zizmor_finds_nothing() -> None:
    done = asked(
        str(BIN / "zizmor"),
        "--offline",
        "--no-config",
        "--pedantic",
        "--strict-collection",
        ".github",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings to report." in done.stdout


def test_the_workflows_are_safe() -> None:
    assert broken(WORKFLOWS) == []


BREAKS: Sequence[tuple[str, str, str, str]] = (
    (
        "perfgate-approved",
        "    if: github.event.label.name == 'perfgate-approved'\n",
        "",
        "a fork's other label",
    ),
    ("perfgate-gate", "needs.approval.result == 'success')", "true)", "an approval too soon"),
    ("perfgate-gate", "github.event_name != 'pull_request' ||", "true ||", "a fork's push"),
    ("perfgate-gate", " == github.repository))", " != ''))", "a fork's push"),
    ("perfgate", "reopened]", "reopened, labeled]", "another label"),
    ("perfgate", "synchronize, ", "", "a push to a branch of its own"),
    ("perfgate-gate", "    if: ${{ always() }}\n", "", "its verdict may be skipped"),
    (
        "perfgate-gate",
        "check out\n    strategy",
        "check out\n      actions: read\n    strategy",
        "more",
    ),
    ("perfgate-gate", "      queue: max\n", "", "one at a time"),
    ("perfgate-gate", " -mindepth 1 -delete", "", "what an earlier job left in the workspace"),
    ("perfgate-comment", "ubuntu-24.04", "[self-hosted, gpu]", "on a self-hosted runner"),
    ("perfgate-bless", "isolation ./trusted", "isolation ./branch", "only data"),
    ("perfgate-bless", "--require-hashes", "--upgrade", "no hash locks"),
    ("perfgate-bless", "          exec ", "          ./configure && ", "more than perfgate"),
    ("perfgate-bless", "          path: branch\n", "", "lies where the job runs"),
)
"""Of each: a workflow, what is written there, what is written instead, and what is found then."""


@pytest.mark.parametrize(("file", "old", "new", "fault"), BREAKS)
def test_a_rule_that_is_broken_is_found(
    tmp_path: Path, file: str, old: str, new: str, fault: str
) -> None:
    copy = tmp_path / "workflows"
    shutil.copytree(WORKFLOWS, copy)
    text = (copy / f"{file}.yml").read_text("utf-8")
    assert old in text
    (copy / f"{file}.yml").write_text(text.replace(old, new), encoding="utf-8")
    assert [one for one in broken(copy) if fault in one] != []


def test_a_push_and_an_approval_replace_one_another_and_a_label_of_others_ends_no_gate() -> None:
    """GitHub asks the group of a run before it asks whether any of its jobs runs, but that of a job
    after it."""
    started, approved = load(WORKFLOWS / "perfgate.yml"), load(WORKFLOWS / "perfgate-approved.yml")
    group = started["concurrency"]["group"]
    assert filled(group, {"github": pull_request()}) == "perfgate-7"
    assert filled(
        group, {"github": {"event_name": "push", "ref": "refs/heads/main", "event": {}}}
    ) == ("perfgate-refs/heads/main")
    (job,) = approved["jobs"].values()
    label = {"github": pull_request(fork=True, action="labeled", label="perfgate-approved")}
    assert filled(job["concurrency"]["group"], label) == "perfgate-7"
    assert job["concurrency"]["cancel-in-progress"] is True
    assert "concurrency" not in approved


@pytest.mark.parametrize(
    ("event", "ends"), [("pull_request", "true"), ("push", "false"), ("workflow_dispatch", "false")]
)
def test_only_a_pull_requests_gate_is_ended_by_a_newer_one(event: str, ends: str) -> None:
    concurrency = load(WORKFLOWS / "perfgate.yml")["concurrency"]
    assert filled(concurrency["cancel-in-progress"], {"github": {"event_name": event}}) == ends


def test_the_gate_is_of_the_head_commit_and_not_of_its_merge() -> None:
    workflow = load(WORKFLOWS / "perfgate-gate.yml")
    refs = [
        step["with"]["ref"]
        for name, job in workflow["jobs"].items()
        for step in job["steps"]
        if "ref" in step.get("with", {}) and name != "approval"
    ]
    assert len(refs) == len(workflow["jobs"]) - 1
    merge = pull_request() | {"sha": "f" * 40}
    assert {filled(ref, {"github": merge}) for ref in refs} == {"0" * 40}
    assert {filled(ref, {"github": {"sha": "f" * 40, "event": {}}}) for ref in refs} == {"f" * 40}


def test_the_check_to_require_is_the_same_of_a_push_and_of_an_approval() -> None:
    called = load(WORKFLOWS / "perfgate-gate.yml")["jobs"]["verdict"]["name"]
    for name in ("perfgate", "perfgate-approved"):
        (job,) = load(WORKFLOWS / f"{name}.yml")["jobs"].values()
        assert (job["uses"], f"{job['name']} / {called}") == (
            "./.github/workflows/perfgate-gate.yml",
            "perfgate / Verdict",
        )


def test_the_comment_follows_every_workflow_that_gates_pull_requests() -> None:
    workflow = load(WORKFLOWS / "perfgate-comment.yml")
    gates = [load(WORKFLOWS / f"{name}.yml")["name"] for name in ("perfgate", "perfgate-approved")]
    assert workflow["on"]["workflow_run"] == {"workflows": gates, "types": ["completed"]}
    assert workflow["concurrency"]["queue"] == "max"
    assert workflow["concurrency"]["cancel-in-progress"] is False


@pytest.mark.parametrize(
    ("body", "association", "of_pull_request", "runs"),
    [
        ("/perfgate bless mlp meant", "MEMBER", True, True),
        ("/perfgate bless mlp meant", "OWNER", True, True),
        ("/perfgate bless mlp meant", "CONTRIBUTOR", True, False),
        ("/perfgate bless mlp meant", "NONE", True, False),
        ("/perfgate bless mlp meant", "MEMBER", False, False),
        ("I would /perfgate bless", "MEMBER", True, False),
    ],
)
def test_only_maintainers_bless_by_comment(
    body: str, association: str, of_pull_request: bool, runs: bool
) -> None:
    job = load(WORKFLOWS / "perfgate-bless.yml")["jobs"]["bless"]
    issue = {"number": 7} | ({"pull_request": {"url": "..."}} if of_pull_request else {})
    event = {"issue": issue, "comment": {"body": body, "author_association": association}}
    assert condition(job["if"], {"github": {"event_name": "issue_comment", "event": event}}) is runs


@pytest.mark.parametrize(
    ("event", "conclusion", "head", "runs"),
    [
        ("pull_request", "success", "ada/engine", True),
        ("pull_request", "failure", "ada/engine", True),
        ("pull_request", "cancelled", "ada/engine", True),
        ("workflow_dispatch", "success", "ada/engine", True),
        ("pull_request", "skipped", "ada/engine", False),
        ("workflow_dispatch", "skipped", "ada/engine", False),
        ("push", "failure", "ada/engine", False),
        ("pull_request", "success", "mallory/engine", True),
        ("pull_request", "action_required", "mallory/engine", True),
        ("pull_request", "failure", "mallory/engine", True),
        ("pull_request", "skipped", "mallory/engine", False),
        ("push", "skipped", "mallory/engine", False),
    ],
)
def test_a_run_with_a_gate_or_of_a_fork_that_waits_is_commented_on_and_one_of_another_label_is_not(
    event: str, conclusion: str, head: str, runs: bool
) -> None:
    job = load(WORKFLOWS / "perfgate-comment.yml")["jobs"]["comment"]
    run = {"event": event, "conclusion": conclusion, "head_repository": {"full_name": head}}
    github = {"repository": "ada/engine", "event": {"workflow_run": run}}
    assert condition(job["if"], {"github": github}) is runs
