"""What a workflow or action lacks of what perfgate init writes today, and what it gates, read from its YAML."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import yaml

from perfgate.init.origin import OPTION, UNKNOWN
from perfgate.model.workflows import APPROVAL, ARTIFACT

_FROM_PULL_REQUESTS: Final = frozenset({"pull_request", "workflow_call"})
"""Events by which a job runs for pull requests: of a workflow that is called, the caller says which."""
_HOSTED: Final = ("ubuntu-", "windows-", "macos-")
"""How labels of GitHub's own runners begin."""
_PINNED: Final = re.compile(r"[^@]+@[0-9a-f]{40}|docker://[^@]+@sha256:[0-9a-f]{64}")
_HARMLESS: Final = re.compile(
    r"\s*(?:'[^']*'|(?:matrix|runner)\.[\w.-]+|github\.action_path|hashFiles\(.*\))\s*"
)
"""Expressions whose value nobody outside the repository chooses."""
_BY_NAME: Final = re.compile(r"perfgate(?:\[[^\]]*\])?\s*(?:[=<>!~;].*)?", re.IGNORECASE)
"""A requirement that only an index can answer."""
_INSTALLER: Final = re.compile(r"(?:.*/)?(?:pip[\d.x]*|tool)")
_EXPRESSION: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def lacking(text: str) -> tuple[str, ...]:
    """Return what a workflow or a composite action lacks, a sentence each."""
    try:
        # Every scalar as text: `on` is no truth value here, and `false` may be written with quotes or without.
        document = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as broken:
        where = getattr(broken, "problem_mark", None)
        line = "" if where is None else f" in line {where.line + 1}"
        return (f"it is no YAML{line}: GitHub cannot read it",)
    if not isinstance(document, dict):
        return ("it is no mapping: GitHub cannot read it",)
    told = (
        _of_workflow(document)
        if "jobs" in document or "runs" not in document
        else _of_action(document)
    )
    return tuple(dict.fromkeys(told))


def installing(text: str) -> tuple[str, ...]:
    """Return what is wrong with how a workflow installs perfgate, a clause each."""
    try:
        document = _mapping(yaml.load(text, Loader=yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_of_installations(document)))


def gated_folders(text: str) -> frozenset[str]:
    """Return the projects that a workflow gates: what the action's working-directory is, `.` by default."""
    try:
        document = _mapping(yaml.load(text, Loader=yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError):
        return frozenset()
    return frozenset(
        str(_mapping(step.get("with")).get("working-directory", "."))
        for job in _mapping(document.get("jobs")).values()
        for step in _gates(_mapping(job))
    )


def _of_action(document: Mapping[str, object]) -> Iterator[str]:
    steps = _steps(_mapping(document.get("runs")))
    if not steps:
        yield "it has no steps"
    for name, step in steps:
        yield from _of_step(name, step)


def _of_workflow(document: Mapping[str, object]) -> Iterator[str]:
    triggers = _triggers(document.get("on"))
    jobs = {name: _mapping(job) for name, job in _mapping(document.get("jobs")).items()}
    if not jobs:
        yield "it has no jobs"
    if document.get("permissions") != {}:
        yield "no `permissions: {}` at the top: jobs that name none get the repository's default token"
    yield from _of_artifacts(triggers, jobs)
    yield from _of_labels(document, jobs)
    yield from _of_installations(document)
    for name, job in jobs.items():
        subject = f"job {name}"
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"{subject}: no time limit (timeout-minutes)"
        if "uses" in job and not _is_pinned(str(job["uses"])):
            yield f"{subject}: {job['uses']} is not pinned by its full SHA"
        if not _is_hosted(job):
            if "concurrency" not in job and "concurrency" not in document:
                yield f"{subject}: no concurrency, so that two gates may measure one another"
            if _FROM_PULL_REQUESTS & triggers and not _is_approved(name, jobs, seen=frozenset()):
                yield f"{subject}: runs the code of forks without the label {APPROVAL}"
            if "pull_request_target" in triggers:
                yield f"{subject}: pull_request_target on a runner of your own"
        for step_name, step in _steps(job):
            yield from (f"{subject}, {told}" for told in _of_step(step_name, step))
            if not str(step.get("uses", "")).startswith("actions/checkout@"):
                continue
            given = _mapping(step.get("with"))
            if given.get("persist-credentials") != "false":
                yield f"{subject}, {step_name}: no `persist-credentials: false`, so the token stays on the disk"
            if not _is_hosted(job) and given.get("fetch-depth") != "0":
                yield f"{subject}, {step_name}: no `fetch-depth: 0`, so there are no commits for duets"
            foreign = {"workflow_run", "pull_request_target"} & triggers
            if foreign and "head" in f"{given.get('ref', '')}{given.get('repository', '')}":
                yield f"{subject}, {step_name}: checks out a pull request's code under {min(foreign)}"


def _of_artifacts(
    triggers: frozenset[str], jobs: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """What is lost of the gates, or is never made one."""
    published = set[str]()
    for name, job in jobs.items():
        told = {_published(step) for step in _gates(job)}
        if "matrix" in _mapping(job.get("strategy")) and not all("matrix." in one for one in told):
            yield f"job {name}: all gates of its matrix publish under one name, and overwrite one another"
        published |= told
    uploads = (step for job in jobs.values() for step in _uploads(job))
    merged = {_published(step) for step in uploads}
    if not _FROM_PULL_REQUESTS & triggers:
        return
    if published and ARTIFACT not in published | merged:
        yield f"no artifact {ARTIFACT}, which the comment tells: merge the gates in a job after them"
    for name, job in jobs.items():
        after = (other for other in jobs.values() if name in _needed(other))
        if _publishes_verdict(job) and _may_be_skipped(job) and all(map(_may_be_skipped, after)):
            yield (
                f"job {name}: it may be skipped, and GitHub takes a required check that was skipped for passed: "
                "let it, or a job after it, run `if: always()` and fail where there was no gate"
            )


def _of_labels(
    document: Mapping[str, object], jobs: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    """What any label on a pull request, a bot's too, would do to a gate."""
    asked = _mapping(_mapping(document.get("on")).get("pull_request")).get("types", [])
    types = (
        {asked}
        if isinstance(asked, str)
        else set(map(str, asked))
        if isinstance(asked, list)
        else set[str]()
    )
    if "labeled" not in types or all(
        _is_hosted(job) and not _calls_gate(job) for job in jobs.values()
    ):
        return
    if types != {"labeled"}:
        yield (
            "it listens to labeled beside other types of pull_request: any label starts a run without a gate after one "
            "that was red, and GitHub takes a required check that was skipped for passed"
        )
    if "concurrency" in document:
        yield "concurrency at the top, where any label ends a gate that runs: set it at the job"


def _of_step(name: str, step: Mapping[str, object]) -> Iterator[str]:
    if "uses" in step and not _is_pinned(str(step["uses"])):
        yield f"{name}: the action is not pinned by its full SHA"
    for expression in _EXPRESSION.findall(str(step.get("run", ""))):
        if not _HARMLESS.fullmatch(expression):
            yield f"{name}: the expression{expression.rstrip()} is in its script; hand it over by env"


def _of_installations(document: Mapping[str, object]) -> Iterator[str]:
    for name, told in _mapping(document.get("jobs")).items():
        job = _mapping(told)
        may_write = _may_write(job.get("permissions", document.get("permissions")))
        for step_name, step in _steps(job):
            faults = _of_installation(str(step.get("run", "")), may_write=may_write)
            yield from (f"job {name}, {step_name}: {fault}" for fault in faults)


def _of_installation(script: str, *, may_write: bool) -> Iterator[str]:
    """What is wrong with how a step installs perfgate, and in a job whose token may write with all that it installs."""
    if UNKNOWN in script:
        yield f"it fails, since {UNKNOWN}"
    for words in _pip_installs(script):
        if any(_BY_NAME.fullmatch(word) for word in words):
            yield (
                "it asks an index for perfgate, a name that anybody may take: say where it comes from "
                f"(perfgate init {OPTION})"
            )
        locked = "--require-hashes" in words or (
            "--no-deps" in words and not any(map(_is_by_name, words))
        )
        if may_write and not locked:
            yield "it installs what no hash locks, in a job whose token may write"


def _pip_installs(script: str) -> Iterator[Sequence[str]]:
    """The words behind `pip install` and its like, of each command of a script."""
    for line in re.sub(r"\\\n", " ", script).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:  # a quotation over several lines
            words = line.split()
        for at, word in enumerate(words):
            if at and word == "install" and _INSTALLER.fullmatch(words[at - 1]):
                yield list(
                    itertools.takewhile(
                        lambda one: not one.startswith("#") and not set(one) <= set(";&|()"),
                        words[at + 1 :],
                    )
                )


def _is_by_name(word: str) -> bool:
    """Whether a word asks an index: no option, no path, and no address that holds a commit or a hash."""
    if word.startswith(("-", ".", "/", "$")) or word == "install":
        return False
    return not re.search(r"@[0-9a-f]{40}|sha256=[0-9a-f]{64}", word)


def _may_write(permissions: object) -> bool:
    return permissions == "write-all" or "write" in _mapping(permissions).values()


def _is_pinned(uses: str) -> bool:
    return uses.startswith("./") or _PINNED.fullmatch(uses) is not None


def _is_hosted(job: Mapping[str, object]) -> bool:
    """Whether a job is known to run on GitHub's own machines; a reusable workflow's is told there."""
    asked = job.get("runs-on")
    labels = _mapping(asked).get("labels", asked) if isinstance(asked, dict) else asked
    listed = [labels] if isinstance(labels, str) else labels if isinstance(labels, list) else []
    return "uses" in job or (
        bool(listed) and all(str(label).startswith(_HOSTED) for label in listed)
    )


def _is_approved(
    name: str, jobs: Mapping[str, Mapping[str, object]], *, seen: frozenset[str]
) -> bool:
    """Whether a job, or one without which it does not run, waits for the label on pull requests of forks."""
    job = jobs.get(name, {})
    asked = str(job.get("if", ""))
    if APPROVAL in asked and "labeled" in asked:
        return True
    asks = re.findall(r"needs\.([\w-]+)\.result == 'success'", asked)
    if (
        name not in seen
        and "labeled" in asked
        and any(_is_approved(one, jobs, seen=seen | {name}) for one in asks)
    ):
        return True
    if name in seen or re.search(r"\b(?:always|cancelled|failure)\(\)", asked):
        return False  # it runs although what it needs was skipped
    return any(_is_approved(other, jobs, seen=seen | {name}) for other in _needed(job))


def _may_be_skipped(job: Mapping[str, object]) -> bool:
    """Whether a job has a condition, or needs others, and does not run whatever came of them."""
    asked = re.sub(
        r"\$\{\{(.*)\}\}", r"\1", str(job.get("if", "")).strip(), flags=re.DOTALL
    ).strip()
    return asked != "always()" and bool(asked or _needed(job))


def _publishes_verdict(job: Mapping[str, object]) -> bool:
    return any(_published(step) == ARTIFACT for step in (*_gates(job), *_uploads(job)))


def _calls_gate(job: Mapping[str, object]) -> bool:
    return _action(job).endswith("/perfgate-gate.yml")


def _needed(job: Mapping[str, object]) -> Sequence[str]:
    needed = job.get("needs", [])
    return (
        [needed]
        if isinstance(needed, str)
        else list(map(str, needed))
        if isinstance(needed, list)
        else []
    )


def _triggers(on: object) -> frozenset[str]:
    if isinstance(on, str):
        return frozenset({on})
    return frozenset(map(str, on)) if isinstance(on, dict | list) else frozenset()


def _steps(job: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
    """The steps, each with the name by which a reader finds it."""
    listed = job.get("steps")
    steps = [_mapping(step) for step in listed] if isinstance(listed, list) else []
    return [
        (f"step {step.get('name') or str(step.get('uses', '')).partition('@')[0] or number}", step)
        for number, step in enumerate(steps, 1)
    ]


def _gates(job: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    return (step for _, step in _steps(job) if _action(step).endswith("/actions/perfgate"))


def _uploads(job: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    return (step for _, step in _steps(job) if _action(step) == "actions/upload-artifact")


def _published(step: Mapping[str, object]) -> str:
    """The artifact of the action, whose name is the verdict's by default, or of an upload, whose name is not."""
    default = ARTIFACT if _action(step).endswith("/actions/perfgate") else "artifact"
    return str(_mapping(step.get("with")).get("name", default))


def _action(step: Mapping[str, object]) -> str:
    return str(step.get("uses", "")).partition("@")[0]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
