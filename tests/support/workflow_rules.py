"""What makes workflows safe on self-hosted runners, as rules that a folder of workflows and actions
keeps or breaks.

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

VERSION = re.compile(r"#\s*v\d+\.\d+\.\d+")
TRUSTED_BRANCH = "${{ github.event.repository.default_branch }}"
LONGEST_MINUTES = 360
STRANGERS = frozenset({"workflow_run", "issue_comment"})
"""Events that a stranger brings about, and that run with the repository's own rights."""
UNNAMED_TYPES = ("opened", "synchronize", "reopened")
"""The types of pull_request by which a workflow is started that names none."""
CALLED = "./.github/workflows/"
RESULTS = ("success", "failure", "cancelled", "skipped")
"""What may come of the jobs before one."""


def broken(folder: Path) -> list[str]:
    """Every rule that a file below a folder breaks: workflows, and actions by their name
    `action.yml`."""
    files = sorted(file for file in folder.rglob("*.yml") if file.is_file())
    assert files, f"no workflow in {folder}"
    faults: list[str] = []
    documents = {file: load(file) for file in files}
    workflows = {file.name: document for file, document in documents.items() if "jobs" in document}
    for file, document in documents.items():
        found = (
            _of_action(document)
            if "runs" in document
            else _of_workflow(document, file.name, workflows)
        )
        faults += [
            f"{file.relative_to(folder)}: {fault}"
            for fault in (*found, *_of_text(file.read_text("utf-8")))
        ]
    return [*faults, *_of_pull_requests(workflows)]


def _of_text(text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = re.match(r"\s*(?:- )?uses:\s*(\S+)(.*)", line)
        if found and not found[1].startswith(("./", "$/")) and not VERSION.search(found[2]):
            yield f"{found[1]} does not say its version in a comment"
    if "secrets." in text:
        yield "it uses a secret"


def _of_action(document: Yaml) -> Iterator[str]:
    if document["runs"]["using"] != "composite":
        yield "it is no composite action"
        return
    for step in document["runs"]["steps"]:
        yield from _of_step(step)
        if "run" in step and step.get("shell") != "bash":
            yield f"{_name(step)}: its shell is not bash"


def _of_workflow(document: Yaml, name: str, workflows: Mapping[str, Yaml]) -> Iterator[str]:
    events = _events(document["on"])
    yield from _of_concurrency(document, events, workflows)
    # Of a workflow that is called, the events are its callers'.
    for caller in workflows.values():
        if any(job.get("uses") == f"{CALLED}{name}" for job in caller["jobs"].values()):
            events = {**events, **_events(caller["on"])}
    for job_name, job in document["jobs"].items():
        for fault in _of_job(job, events, document["jobs"]):
            yield f"job {job_name}: {fault}"


def _of_concurrency(
    document: Yaml, events: Mapping[str, Any], workflows: Mapping[str, Yaml]
) -> Iterator[str]:
    """That a newer run takes the place of an older one, where it may."""
    jobs = document["jobs"].values()
    gates = any(_is_self_hosted(job) for _, _, job in _jobs_in(document, workflows))
    types = _types(events.get("pull_request")) if "pull_request" in events else ()
    if "workflow_call" in events:
        if "concurrency" in document:
            yield "it is called, and has a concurrency next to its caller's"
        return
    if gates and "labeled" in types:
        if len(types) > 1:
            yield "any label starts it, next to other types of pull_request"
        if "concurrency" in document:
            yield "any label ends a gate that runs, by the concurrency of the workflow"
        elif not all("concurrency" in job for job in jobs):
            yield "it has no concurrency"
        return
    if "concurrency" not in document:
        yield "it has no concurrency"


def _jobs_in(
    document: Yaml, workflows: Mapping[str, Yaml]
) -> Iterator[tuple[str, Yaml | None, Yaml]]:
    """The jobs of a workflow, through those that it calls: the name of the check, the calling job,
    the job."""
    for name, job in document["jobs"].items():
        shown = str(job.get("name", name))
        uses = str(job.get("uses", ""))
        if not uses:
            yield shown, None, job
            continue
        called = workflows.get(uses.removeprefix(CALLED)) if uses.startswith(CALLED) else None
        for inner_name, inner in (called or {"jobs": {}})["jobs"].items():
            yield f"{shown} / {inner.get('name', inner_name)}", job, inner


def _types(event: Mapping[str, Any] | None) -> Sequence[str]:
    types = (event or {}).get("types", UNNAMED_TYPES)
    return [types] if isinstance(types, str) else list(types)


def _of_pull_requests(workflows: Mapping[str, Yaml]) -> Iterator[str]:
    """What all workflows together do for an event of a pull request: it is gated once, or never,
    and has a verdict."""
    gates = {
        name: document
        for name, document in workflows.items()
        if "pull_request" in _events(document["on"])
        and any(_is_self_hosted(job) for _, _, job in _jobs_in(document, workflows))
    }
    verdicts = {
        shown
        for document in gates.values()
        for shown, _, job in _jobs_in(document, workflows)
        if _merges(job)
    }
    if gates and len(verdicts) != 1:
        yield f"verdicts have not one name: {sorted(verdicts)}"
    for case, github, runs in PULL_REQUESTS if gates else ():
        needs: dict[str, Any] = {
            "gate": {"result": "success" if runs else "skipped"},
            "changes": {"result": "skipped"},
        }
        known = {"github": github, "inputs": {}, "needs": needs}
        refused = github.get("approval", "success")
        gated, verdicts_of = [], []
        for name, document in gates.items():
            if github["event"]["action"] not in _types(_events(document["on"])["pull_request"]):
                continue
            jobs = list(_jobs_in(document, workflows))
            needs["approval"] = {"result": _approval([job for *_, job in jobs], known, refused)}
            for _, caller, job in jobs:
                if caller is not None and not condition(str(caller.get("if", "success()")), known):
                    continue
                if condition(str(job.get("if", "success()")), known):
                    gated += [name] if _is_self_hosted(job) else []
                    verdicts_of += [name] if _merges(job) else []
        if len(gated) != runs:
            yield f"{case}: gates run in {gated}"
        label = github["event"].get("label", {}).get("name")
        if len(verdicts_of) != (
            github["event"]["action"] != "labeled" or label == "perfgate-approved"
        ):
            yield f"{case}: verdicts come from {verdicts_of}"


def _approval(jobs: Sequence[Yaml], known: Mapping[str, Any], outcome: str) -> str:
    """How the job ends that says whether a label approves the commit."""
    asking = [
        job
        for job in jobs
        for step in job.get("steps", ())
        if str(step.get("run", "")).endswith(_ASKS)
    ]
    return (
        outcome if asking and condition(str(asking[0].get("if", "success()")), known) else "skipped"
    )


_ASKS = '/perfgate" github approval\n'


def _merges(job: Yaml) -> bool:
    """Whether it is the job whose check is required."""
    return any('/perfgate" merge ' in str(step.get("run", "")) for step in job.get("steps", ()))


def _of_verdict(job: Yaml) -> Iterator[str]:
    """Of the job whose check is required: GitHub takes one that was skipped for passed."""
    for result in RESULTS:
        for state in ("success", "failure", "cancelled"):
            needs: Mapping[str, Any] = {"needs": {"gate": {"result": result}}}
            if not condition(str(job.get("if", "success()")), needs, state=state):
                where = f"where the gate ended as {result} and the run as {state}"
                yield f"its verdict may be skipped: {where}"
    first, *_ = job["steps"]
    if "run" not in first or "if" in first or "needs.gate.result" not in str(first.get("env")):
        yield "its first step is not to see that a gate ran"
    for step in job["steps"][1:]:
        known: dict[str, Any] = {
            "steps": {"merge": {"outcome": "skipped"}, "seen": {"outputs": {}}}
        }
        if condition(str(step.get("if", "success()")), known, state="failure"):
            yield f"{_name(step)}: it runs although no gate did"


def _of_job(job: Yaml, events: Mapping[str, Any], jobs: Mapping[str, Yaml]) -> Iterator[str]:
    minutes = job.get("timeout-minutes")
    if "uses" not in job and (not isinstance(minutes, int) or not 0 < minutes <= LONGEST_MINUTES):
        yield "it has no time limit"
    permissions = job.get("permissions")
    if not isinstance(permissions, dict):
        yield "it does not say its permissions"
        permissions = {}
    writes = sorted(scope for scope, level in permissions.items() if level == "write")
    if "uses" in job:
        if writes:
            yield "a token that may write is given to a workflow that is called"
        return
    if _merges(job):
        yield from _of_verdict(job)
    for step in job["steps"]:
        yield from _of_step(step)
        # One that only reads is for perfgate alone, where nothing of the pull request lies.
        alone = _runs_perfgate_alone(str(step.get("run", ""))) and not any(
            _is_other(s, events) for s in job["steps"]
        )
        if "token" in str(step.get("env", {})).lower() and not writes and not alone:
            yield f"{_name(step)}: it gets a token without writing anything"
    if _is_self_hosted(job):
        yield from _of_gpu_job(job, events, permissions, list(jobs.values()))
    if writes:
        yield from _of_writing_job(job, events, jobs)


def _of_gpu_job(
    job: Yaml, events: Mapping[str, Any], permissions: Mapping[str, str], jobs: Sequence[Yaml]
) -> Iterator[str]:
    if set(permissions.items()) - {("contents", "read")}:
        yield "on a self-hosted runner it may do more than read the repository"
    first = str(job["steps"][0].get("run", ""))
    if first != 'find "$GITHUB_WORKSPACE" -mindepth 1 -delete':
        yield "what an earlier job left in the workspace is there at the checkout"
    if job.get("env", {}).get("PYTHONNOUSERSITE") != "1":
        yield "what an earlier job left in the home folder is imported"
    turn = job.get("concurrency")
    if (
        not isinstance(turn, dict)
        or turn.get("cancel-in-progress") is not False
        or turn.get("queue") != "max"
    ):
        yield "gates do not wait for one another, one at a time"
    if set(events) & STRANGERS:
        yield "strangers' events reach a self-hosted runner"
    if "pull_request" in events:
        asked = str(job.get("if", "true"))
        for case, github, runs in PULL_REQUESTS:
            result = _approval(
                jobs, {"github": github, "inputs": {}}, github.get("approval", "success")
            )
            needs = {"approval": {"result": result}, "changes": {"result": "skipped"}}
            if condition(asked, {"github": github, "needs": needs}) is not runs:
                yield f"{case}: it {'does not run' if runs else 'runs'}"
    if not any(
        str(step.get("uses", "")).endswith("/.github/actions/perfgate") for step in job["steps"]
    ):
        yield "its gate is not the composite action, which leaves the runner clean"


PULL_REQUESTS: Sequence[tuple[str, Mapping[str, Any], bool]] = (
    ("a push to a pull request of the repository itself", pull_request(), True),
    ("a new pull request of the repository itself", pull_request(action="opened"), True),
    (
        "another label of a pull request of the repository itself",
        pull_request(action="labeled", label="bug"),
        False,
    ),
    ("a push to a fork's pull request", pull_request(fork=True), False),
    ("a fork's new pull request", pull_request(fork=True, action="opened"), False),
    ("a fork's reopened pull request", pull_request(fork=True, action="reopened"), False),
    (
        "another label of a fork's pull request",
        pull_request(fork=True, action="labeled", label="bug"),
        False,
    ),
    (
        "the approval of a fork's pull request",
        pull_request(fork=True, action="labeled", label="perfgate-approved"),
        True,
    ),
    (
        "an approval of a commit that came just before it",
        {
            **pull_request(fork=True, action="labeled", label="perfgate-approved"),
            "approval": "failure",
        },
        False,
    ),
    (
        "a push to a fork that was approved before",
        pull_request(fork=True, label="perfgate-approved"),
        False,
    ),
    (
        "a fork that is gone",
        {
            **pull_request(fork=True),
            "event": {
                "action": "synchronize",
                "pull_request": {"head": {"sha": "0" * 40, "repo": None}},
            },
        },
        False,
    ),
)
"""Events, as a sentence and as the context `github`, and whether a gate runs on a GPU runner for
them."""


def _of_writing_job(
    job: Yaml, events: Mapping[str, Any], jobs: Mapping[str, Yaml]
) -> Iterator[str]:
    """Of a job whose token may write: it runs nothing of a branch that is not the default one."""
    if _is_self_hosted(job):
        yield "a token that may write is on a self-hosted runner"
    if "pull_request" in events:
        yield "a token that may write is given to what a pull request starts"
    others = _others_checked_out(job, events)
    for step in job["steps"]:
        for line in re.findall(r'/bin/pip" install (.*)', str(step.get("run", ""))):
            if "--require-hashes" not in line and not {"--no-deps", "--no-build-isolation"} <= set(
                line.split()
            ):
                yield f"{_name(step)}: it installs what no hash locks"
    for step in job["steps"]:
        uses, run = str(step.get("uses", "")), str(step.get("run", ""))
        if uses.startswith(("./", "$/")):
            yield f"{_name(step)}: it uses an action of a checkout, with a token that may write"
        if any(re.search(rf"(?<![\w-]){re.escape(path)}(?![\w-])", run) for path in others):
            yield f"{_name(step)}: it names a checkout that is only data"
        if step.get("working-directory", ".").split("/")[0] in others and not _runs_perfgate_alone(
            run
        ):
            yield f"{_name(step)}: it runs more than perfgate in a checkout that is only data"
    for step in job["steps"]:
        if _is_other(step, events) and not step["with"].get("path"):
            yield f"{_name(step)}: what it checks out lies where the job runs"


def _runs_perfgate_alone(run: str) -> bool:
    return bool(
        re.fullmatch(
            r'exec "\$RUNNER_TEMP/venv/bin/perfgate" github [a-z]+( "\$RUNNER_TEMP/\w+")?\n?', run
        )
    )


def _others_checked_out(job: Yaml, events: Mapping[str, Any]) -> set[str]:
    return {
        str(step["with"]["path"])
        for step in job["steps"]
        if _is_other(step, events) and "path" in step["with"]
    }


def _is_other(step: Yaml, events: Mapping[str, Any]) -> bool:
    """Whether a step checks out something else than the default branch."""
    if not str(step.get("uses", "")).startswith("actions/checkout@"):
        return False
    ref = step.get("with", {}).get("ref")
    # Without a ref it is the commit of the event: of a schedule or workflow_run that of the default
    # branch.
    return ref != TRUSTED_BRANCH and not (
        ref is None and set(events) <= {"schedule", "workflow_run", "workflow_dispatch"}
    )


def _of_step(step: Yaml) -> Iterator[str]:
    given = step.get("with", {})
    if (
        str(step.get("uses", "")).startswith("actions/checkout@")
        and given.get("clean", True) is not True
    ):
        yield f"{_name(step)}: the workspace is not cleaned before"
    if "nsys-rep" in str(given.get("path", "")):
        yield f"{_name(step)}: it publishes a .nsys-rep, which holds the job's environment"


def _events(on: object) -> Mapping[str, Any]:
    match on:
        case str():
            return {on: None}
        case list():
            return dict.fromkeys(on)
        case dict():
            return on
        case _:
            raise AssertionError(on)


def _is_self_hosted(job: Yaml) -> bool:
    runs_on = job.get("runs-on", [])
    return "self-hosted" in (runs_on if isinstance(runs_on, list) else [runs_on])


def _name(step: Yaml) -> str:
    return str(step.get("name") or step.get("uses") or step.get("run"))
