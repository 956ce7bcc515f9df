"""The action and the workflows of this repository: valid, without findings, and safe on self-hosted
runners."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.actions import ACTION, ROOT, WORKFLOWS, condition, filled, load, pull_request
from support.workflow_rules import broken

from perfgate.model.baseline import FEWEST_RUNS

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


def test_whatever_zizmor_is_shown_to_leave_says_why() -> None:
    lines = [
        line
        for file in FILES
        for line in file.read_text("utf-8").splitlines()
        if "zizmor" in line.partition("#")[2]
    ]
    ignored = [line for line in lines if "ignore[" in line]
    assert len(ignored) == 6
    assert [
        line for line in ignored if not re.search(r"# zizmor: ignore\[[a-z-]+\] \w+ .*\w+", line)
    ] == []


def test_the_workflows_are_safe() -> None:
    assert broken(ROOT / ".github") == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The workflows and the action, to be broken."""
    return Path(
        shutil.copytree(
            ROOT / ".github", tmp_path / "github", ignore=shutil.ignore_patterns("*.md")
        )
    )


BREAKS: Sequence[tuple[str, str, str, str]] = (
    ("tests", "    timeout-minutes: 30\n", "", "it has no time limit"),
    ("tests", " # v6.0.2", "", "does not say its version in a comment"),
    (
        "perfgate-gate",
        "github.event.label.name == 'perfgate-approved'\n",
        "true\n",
        "another label of a fork's pull request: it runs",
    ),
    (
        "perfgate-gate",
        "needs.approval.result == 'success')",
        "true)",
        "an approval of a commit that came just before it: it runs",
    ),
    (
        "perfgate-gate",
        "(github.event.action != 'labeled' && ",
        "(",
        "another label of a pull request of the repository itself: it runs",
    ),
    (
        "perfgate-gate",
        " == github.repository))",
        " != ''))",
        "a push to a fork's pull request: it runs",
    ),
    (
        "perfgate-gate",
        "github.event_name != 'pull_request' ||",
        "true ||",
        "a fork's new pull request: it runs",
    ),
    (
        "perfgate-gate",
        "      contents: read # to check out\n    strategy",
        "      contents: write\n    strategy",
        "on a self-hosted runner it may do more than read the repository",
    ),
    ("perfgate-gate", "      queue: max\n", "", "gates do not wait for one another, one at a time"),
    (
        "perfgate-gate",
        '        run: find "$GITHUB_WORKSPACE" -mindepth 1 -delete\n',
        "        run: pwd\n",
        "what an earlier job left in the workspace is there at the checkout",
    ),
    (
        "perfgate-occasions",
        'PYTHONNOUSERSITE: "1"',
        'PYTHONNOUSERSITE: ""',
        "what an earlier job left in the home folder is imported",
    ),
    (
        "perfgate-gate",
        "      - uses: ./.github/actions/perfgate",
        "      - uses: ./.github/actions/other",
        "its gate is not the composite action, which leaves the runner clean",
    ),
    (
        "perfgate-comment",
        "    runs-on: ubuntu-24.04",
        "    runs-on: [self-hosted, gpu]",
        "a token that may write is on a self-hosted runner",
    ),
    (
        "perfgate-comment",
        "${{ github.event.repository.default_branch }}",
        "${{ github.event.workflow_run.head_sha }}",
        "what it checks out lies where the job runs",
    ),
    (
        "perfgate-bless",
        "isolation ./trusted",
        "isolation ./branch",
        "it names a checkout that is only data",
    ),
    ("perfgate-bless", "--require-hashes", "--upgrade", "it installs what no hash locks"),
    ("perfgate-occasions", "--no-deps", "", "it installs what no hash locks"),
    (
        "perfgate-bless",
        "          exec ",
        "          ./configure && ",
        "it runs more than perfgate in a checkout that is only data",
    ),
    (
        "perfgate-bless",
        "          path: branch\n",
        "",
        "what it checks out lies where the job runs",
    ),
    ("perfgate-occasions", "github.token", "secrets.TOKEN", "it uses a secret"),
    (
        "tests",
        "      contents: read # to check out\n",
        "      contents: write\n",
        "a token that may write is given to what a pull request starts",
    ),
    (
        "perfgate",
        "reopened]",
        "reopened, labeled]",
        "any label starts it, next to other types of pull_request",
    ),
    (
        "perfgate",
        "reopened]",
        "reopened, labeled]",
        "another label of a fork's pull request: verdicts come from ['perfgate.yml']",
    ),
    (
        "perfgate",
        "synchronize, ",
        "",
        "a push to a pull request of the repository itself: gates run in []",
    ),
    (
        "perfgate-approved",
        "    if: github.event.label.name == 'perfgate-approved'\n",
        "",
        "another label of a fork's pull request: verdicts come from ['perfgate-approved.yml']",
    ),
    (
        "perfgate-approved",
        "permissions: {}\n",
        "permissions: {}\nconcurrency: gate\n",
        "any label ends a gate that runs, by the concurrency of the workflow",
    ),
    (
        "perfgate-approved",
        "    concurrency:\n      group:",
        "    env:\n      group:",
        "it has no concurrency",
    ),
    (
        "perfgate-approved",
        "    name: perfgate\n",
        "    name: approved\n",
        "verdicts have not one name: ['approved / ",
    ),
    (
        "perfgate-approved",
        "contents: read",
        "contents: write",
        "a token that may write is given to a workflow that is called",
    ),
    (
        "perfgate-gate",
        "permissions: {}\n",
        "permissions: {}\nconcurrency: gate\n",
        "it is called, and has a concurrency next to its caller's",
    ),
    (
        "perfgate-gate",
        "    if: ${{ always() }}\n",
        "    if: ${{ !cancelled() && needs.gate.result != 'skipped' }}\n",
        "its verdict may be skipped: where the gate ended as skipped and the run as success",
    ),
    (
        "perfgate-gate",
        "    if: ${{ always() }}\n",
        "    if: ${{ !cancelled() }}\n",
        "its verdict may be skipped: where the gate ended as cancelled and the run as cancelled",
    ),
    (
        "perfgate-gate",
        "    if: ${{ always() }}\n",
        "",
        "its verdict may be skipped: where the gate ended as failure and the run as failure",
    ),
    (
        "perfgate-gate",
        " && steps.merge.outcome != 'skipped'",
        "",
        "Publish the verdict: it runs although no gate did",
    ),
    (
        "perfgate-gate",
        "          RESULT: ${{ needs.gate.result }}\n",
        "",
        "its first step is not to see that a gate ran",
    ),
)
"""Of each: a workflow, what is written there, what is written instead, and the rule that this
breaks."""


@pytest.mark.parametrize(("file", "old", "new", "fault"), BREAKS)
def test_a_rule_that_is_broken_is_found(
    copy: Path, file: str, old: str, new: str, fault: str
) -> None:
    path = copy / "workflows" / f"{file}.yml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
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


def test_a_gate_that_is_started_by_hand_may_be_given_runs_and_need_not() -> None:
    """As the one that a blessing starts is not."""
    (name, declared), *others = load(WORKFLOWS / "perfgate.yml")["on"]["workflow_dispatch"][
        "inputs"
    ].items()
    assert (name, others) == ("runs", [])
    assert declared == {
        "description": f"Runs of the first look; {FEWEST_RUNS} where a baseline is to be "
        "blessed from it.",
        "default": "",
        "type": "string",
    }
