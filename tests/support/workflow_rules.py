"""What makes workflows safe on self-hosted runners, as rules that a folder of workflows keeps or
breaks.

What any workflow should keep zizmor checks (pins, triggers, permissions, credentials, expressions).
Rules are held against what the files mean, not how they are written: conditions are evaluated for
the events that there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.actions import Yaml, condition, load, pull_request

TRUSTED_BRANCH = "${{ github.event.repository.default_branch }}"
STRANGERS = frozenset({"workflow_run", "issue_comment"})
"""Events that a stranger brings about, and that run with the repository's own rights."""
UNNAMED_TYPES = ("opened", "synchronize", "reopened")
"""The types of pull_request by which a workflow is started that names none."""
STARTING = ("perfgate.yml", "perfgate-approved.yml")
"""What gates pull requests; both call perfgate-gate.yml."""
ALONE = re.compile(r'exec "\$RUNNER_TEMP/venv/bin/perfgate" github [a-z]+\n?')
LABEL = {"action": "labeled", "label": "perfgate-approved"}
CASES: Sequence[tuple[str, Mapping[str, Any], str, bool, bool]] = (
    ("a push to a branch of its own", pull_request(), "", True, True),
    ("a new pull request", pull_request(action="opened"), "", True, True),
    ("another label", pull_request(action="labeled", label="bug"), "", False, False),
    ("a fork's push", pull_request(fork=True), "", False, True),
    (
        "a fork's push, labelled",
        pull_request(fork=True, label="perfgate-approved"),
        "",
        False,
        True,
    ),
    ("a fork's reopening", pull_request(fork=True, action="reopened"), "", False, True),
    (
        "a fork's other label",
        pull_request(fork=True, action="labeled", label="bug"),
        "",
        False,
        False,
    ),
    ("an approval", pull_request(fork=True, **LABEL), "success", True, True),
    ("an approval too soon", pull_request(fork=True, **LABEL), "failure", False, True),
)
"""Events: a name, the context `github`, how the job Approval ends, whether a gate runs on a GPU
runner, and whether there is a verdict."""


def broken(folder: Path) -> list[str]:
    """Every rule that the workflows in a folder break."""
    workflows = {file.name: load(file) for file in sorted(folder.glob("*.yml"))}
    assert workflows, f"no workflow in {folder}"
    faults = []
    for name, document in workflows.items():
        events = set(_events(document))
        if "workflow_call" in events:  # its callers'
            events |= {event for caller in STARTING for event in _events(workflows[caller])}
        for job_name, job in document["jobs"].items():
            faults += [f"{name}: {job_name}: {fault}" for fault in _of_job(job, events)]
        if "secrets." in str(document):
            faults.append(f"{name}: it uses a secret")
    if "perfgate-gate.yml" in workflows:
        faults += _of_pull_requests(workflows)
        faults += _of_verdict(workflows["perfgate-gate.yml"]["jobs"]["verdict"])
    return faults


def _events(document: Yaml) -> Mapping[str, Any]:
    on = document["on"]
    return on if isinstance(on, dict) else dict.fromkeys([on] if isinstance(on, str) else on)


def _of_pull_requests(workflows: Mapping[str, Yaml]) -> Iterator[str]:
    """That an event is gated once, or never, and has one verdict."""
    jobs = workflows["perfgate-gate.yml"]["jobs"]
    for case, github, approval, is_gated, has_verdict in CASES:
        gates = verdicts = 0
        for name in STARTING:
            types = (_events(workflows[name])["pull_request"] or {}).get("types", UNNAMED_TYPES)
            (caller,) = workflows[name]["jobs"].values()
            known: dict[str, Any] = {"github": github, "inputs": {}}
            if github["event"]["action"] not in types or not _runs(caller, known):
                continue
            ended = approval if _runs(jobs["approval"], known) else "skipped"
            known["needs"] = {"approval": {"result": ended}, "changes": {"result": "skipped"}}
            gates += _runs(jobs["gate"], known)
            verdicts += _runs(jobs["verdict"], known)
        if (gates, verdicts) != (is_gated, has_verdict):
            yield f"{case}: {gates} gates and {verdicts} verdicts"


def _runs(job: Yaml, known: Mapping[str, Any], state: str = "success") -> bool:
    return condition(str(job.get("if", "success()")), known, state=state)


def _of_verdict(job: Yaml) -> Iterator[str]:
    """Of the job whose check is required: GitHub takes one that was skipped for passed."""
    for result in ("success", "failure", "cancelled", "skipped"):
        needs = {"needs": {"gate": {"result": result}}}
        if not all(_runs(job, needs, state) for state in ("success", "failure", "cancelled")):
            yield f"its verdict may be skipped where the gate ended as {result}"


def _of_job(job: Yaml, events: set[str]) -> Iterator[str]:
    permissions = job.get("permissions")
    if not isinstance(permissions, dict):
        yield "it does not say its permissions"
        permissions = {}
    may_write = "write" in permissions.values()
    if "uses" in job:
        if may_write:
            yield "a token that may write is given to a workflow that is called"
        return
    if "timeout-minutes" not in job:
        yield "it has no time limit"
    if "self-hosted" in job["runs-on"]:
        yield from _of_gpu_job(job, events, permissions)
    if may_write:
        yield from _of_writing_job(job, events)


def _of_gpu_job(job: Yaml, events: set[str], permissions: Mapping[str, str]) -> Iterator[str]:
    if permissions != {"contents": "read"}:
        yield "on a self-hosted runner it may do more than read the repository"
    if job["steps"][0].get("run") != 'find "$GITHUB_WORKSPACE" -mindepth 1 -delete':
        yield "what an earlier job left in the workspace is there at the checkout"
    if job.get("env", {}).get("PYTHONNOUSERSITE") != "1":
        yield "what an earlier job left in the home folder is imported"
    turn = job.get("concurrency", {})
    if (turn.get("cancel-in-progress"), turn.get("queue")) != (False, "max"):
        yield "gates do not wait for one another, one at a time"
    if events & STRANGERS:
        yield "strangers' events reach a self-hosted runner"
    if not any(one.get("uses") == "./.github/actions/perfgate" for one in job["steps"]):
        yield "its gate is not the composite action, which leaves the runner clean"


def _of_writing_job(job: Yaml, events: set[str]) -> Iterator[str]:
    """Of a job whose token may write: it runs nothing of a branch that is not the default one."""
    if "self-hosted" in job["runs-on"]:
        yield "a token that may write is on a self-hosted runner"
    if "pull_request" in events:
        yield "a token that may write is given to what a pull request starts"
    checkouts = [
        step.get("with", {})
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/checkout@") and not _is_trusted(step, events)
    ]
    if not all("path" in given for given in checkouts):
        yield "what it checks out lies where the job runs"
    data = {given.get("path") for given in checkouts}
    for step in job["steps"]:
        run = str(step.get("run", ""))
        for line in re.findall(r'/bin/pip" install (.*)', run):
            if "--require-hashes" not in line and "--no-deps --no-build-isolation" not in line:
                yield "it installs what no hash locks"
        if step.get("uses", "").startswith("./"):
            yield "it uses an action of a checkout"
        if any(re.search(rf"\b{path}\b", run) for path in data):
            yield "it names a checkout that is only data"
        if step.get("working-directory", ".").split("/")[0] in data and not ALONE.fullmatch(run):
            yield "it runs more than perfgate in a checkout that is only data"


def _is_trusted(step: Yaml, events: set[str]) -> bool:
    """Whether a step checks out the default branch; without a ref it is the event's commit."""
    ref = step.get("with", {}).get("ref")
    own = events <= {"schedule", "workflow_run", "workflow_dispatch"}
    return ref == TRUSTED_BRANCH or (ref is None and own)
