"""A gate as a step of a job of GitHub Actions: its files, what it says to the runner, its exit
status, and the step that leaves the runner free and clean.

Files lie where the action's other steps find them::

    .perfgate/github/perfgate.json, page.json, perfgate.html, junit.xml
    .perfgate/results/<machine>/<workload>/<time>/result.json   what may be blessed
    .perfgate/results/<machine>/<workload>/<time>/<run>/...     captures, scrubbed
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from perfgate.execute.worktree import remove_abandoned
from perfgate.github.approval import labelled
from perfgate.github.change import compare
from perfgate.github.context import append, append_summary, base_branch
from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    ConfigInvalid,
    PerfgateError,
    RepositoryUnreadable,
    StoreFailed,
)
from perfgate.model.given import wrong
from perfgate.model.loosening import Base
from perfgate.model.note import Note, Severity, note
from perfgate.model.options import OPTIONS
from perfgate.model.order import RUN_COOKIE
from perfgate.model.secrets import Cleaner
from perfgate.render.annotations import gate_annotations
from perfgate.render.markdown import filled
from perfgate.system import git
from perfgate.system.ending import end_marked, processes_of
from perfgate.system.process import gate_command, run_to_end
from perfgate.system.signals import holding_signals_back
from perfgate.words.escape import CommandKind, without_commands, workflow_command
from perfgate.words.say import Coded, message

INPUT: Final = "PERFGATE_INPUT_"
"""Before the names of the action's inputs, which come as variables, never as parts of a command."""
_OPTIONS: Final = {
    one.action_input: one.option
    for one in OPTIONS
    if one.action_input is not None and one.setting != "budgets"
}
"""By input of one value, the option of pytest that it becomes."""
KEPT: Final = ".perfgate"
"""perfgate's own folder in a project, which ignores itself in git."""
INTERRUPTED: Final = 2
"""pytest's exit status for it."""
WIDTH: Final = "120"
"""Columns of a job's log, which says none."""
NOT_FOR_WORKLOADS: Final = frozenset(
    {"GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"}
)
"""By these files a step speaks to the runner and to later steps. What is measured has nothing to
say to them."""
JSON, PAGE = "perfgate.json", "perfgate.html"
WRITTEN: Final[Mapping[str, str]] = {
    JSON: "--perfgate-json",
    "page.json": "--perfgate-page-data",
    PAGE: "--perfgate-html",
    "junit.xml": "--junit-xml",
}
"""The files that a gate writes, each with the option that names it."""
SCRUBBED: Final = ("capture-[0-9]*.sqlite", "capture-[0-9]*-reports/*.csv")
"""Of a run, what may leave the machine: exports that were scrubbed, and nsys's summaries.

Not a .nsys-rep, which holds the job's environment, not what nsys wrote before it was scrubbed
(below `nsys`), and not a log, which may hold anything."""

MOST_NAMES: Final = 5
"""Files that are named where the workspace is not clean."""

Say = Callable[[str], None]
"""Takes lines for the job's log."""
KINDS: Final[Mapping[Severity, CommandKind]] = {Severity.INVALID: "error", Severity.WARN: "warning"}


def said(coded: Coded) -> str:
    """Return a note or an error as the runner shows it."""
    severity = coded.severity if isinstance(coded, Note) else Severity.INVALID
    kind = KINDS.get(severity)
    if kind is None:
        return without_commands(message(coded))
    return workflow_command(kind, message(coded), title="perfgate")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The step that a gate is."""

    root: Path
    """The project's."""
    env: Mapping[str, str]

    @property
    def kept(self) -> Path:
        """perfgate's own folder in the project."""
        return self.root / KEPT

    @property
    def folder(self) -> Path:
        """Where the files of the gate lie."""
        return self.kept / "github"

    @property
    def mark(self) -> str:
        """What every process of this gate bears in its environment; `clean` finds them by it."""
        names = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_NAME", INPUT + "NAME")
        words = "-".join(["github", *(self.env.get(name, "") for name in names)])
        return re.sub(r"[^A-Za-z0-9._-]", "-", words)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the gate: this one's, without what is the action's alone."""
        kept = {
            name: value
            for name, value in self.env.items()
            if name not in NOT_FOR_WORKLOADS and not name.startswith(INPUT)
        }
        inherited = self.env.get(RUN_COOKIE)
        cookie = f"{inherited}:{self.mark}" if inherited else self.mark
        return {"COLUMNS": WIDTH, **kept, RUN_COOKIE: cookie}

    def output(self, **values: str) -> None:
        """Hand values to later steps, whatever they hold; outside a job there are none. Of one name
        the last counts.

        Raises:
            StoreFailed: the runner's file does not take them.
        """
        if self.env.get("GITHUB_OUTPUT"):
            end = f"perfgate_{secrets.token_hex(16)}"  # cannot be in a value
            lines = (f"{name}<<{end}\n{value}\n{end}\n" for name, value in values.items())
            append(Path(self.env["GITHUB_OUTPUT"]), "".join(lines))


def inputs_of(env: Mapping[str, str]) -> dict[str, str]:
    """What the action was given, by name, but for what is empty."""
    given = {
        name.removeprefix(INPUT).lower().replace("_", "-"): value.strip()
        for name, value in env.items()
        if name.startswith(INPUT) and value.strip()
    }
    return {"name": "perfgate", **given}


def options_of(given: Mapping[str, str]) -> list[str]:
    """pytest's options of a gate with these inputs; what is nothing that it can be, the gate
    refuses.

    Raises:
        ConfigInvalid: a workload would become an option.
    """
    options = [f"{_OPTIONS[name]}={value}" for name, value in given.items() if name in _OPTIONS]
    options.append(f"--perfgate-label={given['name']}")
    options += (f"--perfgate-budget={one}" for one in given.get("budgets", "").split())
    for line in filter(None, map(str.strip, given.get("workloads", "").splitlines())):
        if line.startswith("-"):
            raise wrong("input workloads", line, "expects-node")
        options.append(line)
    return options


def run(job: Job, say: Say) -> int:
    """Run the gate, write its files and outputs, say what the runner is to show, and return the
    exit status.

    That is pytest's own; never 0 where the gate is not known to be open.

    Raises:
        PerfgateError: nothing was measured; the output `outcome` is none.
        KeyboardInterrupt: likewise, before the gate began.
    """
    job.output(outcome="none")
    try:
        given = inputs_of(job.env)
        options = options_of(given)
        _empty(job)
        base = _base(job, given)
    except PerfgateError as error:
        say(said(error))
        raise
    # What workloads print is not for the runner: without this, a line that begins with :: would be
    # a command to it.
    token = secrets.token_hex(16)
    say(f"::stop-commands::{token}")
    try:
        status = _measured(job, options, base)
    finally:
        with holding_signals_back(then_raise=False):
            if ended := end_marked(job.mark):
                say(said(note("gate-processes-ended", processes=ended)))
            say(f"\n::{token}::")
    with holding_signals_back(then_raise=False):
        return _concluded(job, status, say, captures=given.get("captures") == "true")


def _empty(job: Job) -> None:
    """Make the folder of the files anew: nothing of an earlier gate may be taken for this one's.

    Raises:
        StoreFailed: it cannot be, or leads elsewhere.
    """
    try:
        if job.folder.exists():
            shutil.rmtree(job.folder)
        job.folder.mkdir(parents=True)
        (job.kept / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreFailed(
            "folder-not-emptied", folder=str(job.folder), reason=error.strerror or str(error)
        ) from error


def _measured(job: Job, asked: Sequence[str], base: Base | None) -> int:
    """Run pytest to its end, and return its exit status."""
    options = [f"{option}={job.folder / name}" for name, option in WRITTEN.items()]
    if job.env.get("GITHUB_STEP_SUMMARY"):
        options.append(f"--perfgate-markdown={job.env['GITHUB_STEP_SUMMARY']}")
    if base is not None:
        file = job.kept / "base.json"
        file.write_text(base.model_dump_json(), encoding="utf-8")
        options.append(f"--perfgate-base={file}")
    command = gate_command(sys.executable, *options, *asked, root=job.root)
    try:
        return run_to_end(command, cwd=job.root, env=job.environment)
    except KeyboardInterrupt:
        return INTERRUPTED


def _concluded(job: Job, status: int, say: Say, *, captures: bool) -> int:
    """Say and write what came of it, and return the exit status of the step."""
    outcome = "none"  # where a gate came to no end nothing is known, so it is no pass
    try:
        document = read_document((job.folder / JSON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        nothing = note("gate-without-verdict", Severity.INVALID, status=status)
        say(said(nothing))
        append_summary(job.env, filled("nothing.md.j2", why=nothing))
    else:
        outcome = "open" if document.opens_gate and status == EXIT_OPEN else "shut"
        for line in gate_annotations(document, prefix=git.prefix(job.root, env=job.env)):
            say(line)
        if document.opens_gate and outcome == "shut":
            say(said(note("open-but-pytest-failed", Severity.INVALID, status=status)))
        patterns = _captures(job, document) if captures else ()
        page = job.folder / PAGE
        job.output(
            outcome=outcome,
            json=str(job.folder / JSON),
            page=str(page) if page.exists() else "",
            captures="\n".join(patterns),
        )
    if status < 0:
        return 128 - status
    return status or (EXIT_OPEN if outcome == "open" else EXIT_SHUT)


def _captures(job: Job, document: GateDocument) -> Iterator[str]:
    """Where captures lie of workloads that keep the gate shut, as patterns of upload-artifact."""
    for workload in document.workloads:
        if workload.files and not workload.opens_gate:
            name, time = PurePath(workload.files).parts[-2:]
            folder = re.sub(r"[][]", "?", str(job.kept / "results" / "*" / name / time))
            yield from (f"{folder}/*/{pattern}" for pattern in SCRUBBED)


# The branch that the change is for


def _base(job: Job, given: Mapping[str, str]) -> Base | None:
    """What this gate is held to by the base branch; None where no branch is known to be that."""
    branch = given.get("baseline-branch") or base_branch(job.env)
    if branch is None:
        return None
    base = compare(
        job.root,
        job.environment,
        branch=branch,
        approved=_is_approved(job),
        folder=job.kept / "worktrees",
    )
    return Cleaner(job.env).record(base)


def _is_approved(job: Job) -> bool:
    """Whether a maintainer has approved what is checked out: by its label, or by letting it into
    the merge queue."""
    if job.env.get("GITHUB_EVENT_NAME") == "merge_group":
        return True
    with contextlib.suppress(PerfgateError):
        event = labelled(job.env)
        return event is not None and event.sha == git.resolve(job.root, "HEAD", env=job.env)
    return False


# What a runner is left with


def clean(job: Job, *, before: bool) -> list[Note]:
    """End what a gate has left running, remove what it has checked out and kept, and look at the
    workspace.

    Args:
        job: the step; `mark` says which processes, and the name of the gate is a part of it.
        before: whether a gate is yet to come. What lies under `.perfgate` is then none of this
            job's to publish.

    Raises:
        ConfigInvalid: it is no job of GitHub Actions: results that somebody keeps would be lost.
    """
    if job.env.get("GITHUB_ACTIONS") != "true":
        raise ConfigInvalid("clean-outside-a-job")
    notes = [*_left_running(job), *_files(job, before=before), *_changes(job)]
    return notes or [note("runner-clean")]


def _left_running(job: Job) -> Iterator[Note]:
    ended = end_marked(job.mark)
    if ended:
        yield note("gate-processes-ended", processes=ended)
    left = len(processes_of(job.mark))
    if left:
        yield note("gate-processes-left", Severity.INVALID, count=left)


def _files(job: Job, *, before: bool) -> Iterator[Note]:
    try:
        for name in remove_abandoned(job.root, job.kept / "worktrees", env=job.env):
            yield note("checkout-removed", checkout=name)
        # The files of this gate stay: later steps of the job read them by the action's outputs.
        for folder in (job.kept / "results", *([job.folder] if before else [])):
            if folder.exists():
                shutil.rmtree(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        yield note("folder-not-removed", Severity.WARN, folder=str(job.kept), reason=reason)


def _changes(job: Job) -> Iterator[Note]:
    try:
        changes = git.changes(job.root, env=job.env)
    except RepositoryUnreadable as unknown:
        yield note("workspace-unknown", Severity.WARN, reason=unknown.fact)
        return
    if changes:
        first = changes[:MOST_NAMES]
        yield note("workspace-changed", Severity.WARN, count=len(changes), first=first)
