"""A gate as a step of a job of GitHub Actions: its files, what it says to the runner, and its exit
status.

Files lie where the action's other steps find them::

    .perfgate/github/perfgate.json, page.json, perfgate.html, junit.xml
    .perfgate/github/kept/results/<machine>/<workload>/<time>/result.json   what may be blessed
    .perfgate/github/captures/<workload>/<run>/...                          scrubbed, if asked for
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Final

from perfgate.github.approval import labelled_head
from perfgate.github.change import Change, compare
from perfgate.github.context import Context, append, append_summary, base_branch
from perfgate.github.inputs import INPUT, Inputs
from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    PerfgateError,
    StoreFailed,
)
from perfgate.model.loosening import Base
from perfgate.model.note import Note, Severity, note
from perfgate.model.order import RUN_COOKIE
from perfgate.model.secrets import Cleaner
from perfgate.render.annotations import gate_annotations
from perfgate.render.markdown import filled
from perfgate.store import RESULT_FILE, file_name
from perfgate.system import git
from perfgate.system.ending import end_marked
from perfgate.system.process import gate_command, run_to_end
from perfgate.system.signals import holding_signals_back
from perfgate.words.escape import CommandKind, without_commands, workflow_command
from perfgate.words.say import Coded, message

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


class JobOutcome(StrEnum):
    """What came of a gate, as the action's output has it."""

    OPEN = "open"
    SHUT = "shut"
    NONE = "none"
    """It came to no end: nothing is known, so it is no pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The step that a gate is."""

    root: Path
    """The project's."""
    cwd: Path
    env: Mapping[str, str]
    python: str

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
        inherited = self.env.get(RUN_COOKIE)
        kept = {
            name: value
            for name, value in self.env.items()
            if name not in NOT_FOR_WORKLOADS and not name.startswith(INPUT)
        }
        cookie = f"{inherited}:{self.mark}" if inherited else self.mark
        return {"COLUMNS": WIDTH, **kept, RUN_COOKIE: cookie}

    def output(self, **values: str) -> None:
        """Hand values to later steps, whatever they hold; outside a job there are none.

        Raises:
            StoreFailed: the runner's file does not take them.
        """
        if self.env.get("GITHUB_OUTPUT"):
            texts = (output_text(name, value) for name, value in values.items())
            append(Path(self.env["GITHUB_OUTPUT"]), "".join(texts))


def output_text(name: str, value: str) -> str:
    """One value as the runner reads it; its delimiter cannot be in the value."""
    delimiter = f"perfgate_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def run(job: Job, say: Say) -> int:
    """Run the gate, write its files and outputs, say what the runner is to show, and return the
    exit status.

    That is pytest's own; never 0 where the gate is not known to be open.

    Raises:
        PerfgateError: nothing was measured; the output `outcome` is none.
        KeyboardInterrupt: likewise, before the gate began.
    """
    try:
        inputs = Inputs.from_env(job.env)
        inputs.check_settings(job.root)
        _empty(job)
        base = _base(job, inputs, say)
    except BaseException as error:
        if isinstance(error, PerfgateError):
            say(said(error))
        job.output(outcome=JobOutcome.NONE)
        raise
    # What workloads print is not for the runner: without this, a line that begins with :: would be
    # a command to it.
    token = secrets.token_hex(16)
    say(f"::stop-commands::{token}")
    try:
        status = _measured(job, inputs, base, say)
    finally:
        with holding_signals_back(then_raise=False):
            if ended := end_marked(job.mark):
                say(said(note("gate-processes-ended", processes=ended)))
            say(f"\n::{token}::")
    with holding_signals_back(then_raise=False):
        return _concluded(job, inputs, status, base, say)


def _empty(job: Job) -> None:
    """Make the folder of the files anew: nothing of an earlier gate may be taken for this one's.

    Raises:
        StoreFailed: it cannot be, or leads elsewhere.
    """
    try:
        remove(job.folder)
        job.folder.mkdir(parents=True)
        ignore = job.kept / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreFailed(
            "folder-not-emptied", folder=str(job.folder), reason=error.strerror or str(error)
        ) from error


def remove(folder: Path) -> None:
    """Remove a folder below perfgate's own, if it is there.

    Raises:
        OSError: it cannot be removed, or leads elsewhere.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise OSError("it is a link")
    if folder.exists():
        shutil.rmtree(folder)


def _measured(job: Job, inputs: Inputs, base: Base | None, say: Say) -> int:
    """Run pytest to its end, and return its exit status."""
    options = [f"{option}={job.folder / name}" for name, option in WRITTEN.items()]
    if job.env.get("GITHUB_STEP_SUMMARY"):
        options.append(f"--perfgate-markdown={job.env['GITHUB_STEP_SUMMARY']}")
    if base is not None:
        file = job.folder / "base.json"
        file.write_text(base.model_dump_json(), encoding="utf-8")
        options.append(f"--perfgate-base={file}")
    try:
        return run_to_end(
            gate_command(job.python, *options, *inputs.options, root=job.root),
            cwd=job.cwd,
            env=job.environment,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        reason = error.strerror or str(error)
        say(said(note("python-not-started", python=job.python, reason=reason)))
        return EXIT_SHUT


def _concluded(job: Job, inputs: Inputs, status: int, base: Base | None, say: Say) -> int:
    """Say and write what came of it, and return the exit status of the step."""
    document = _document(job.folder / JSON)
    if document is None:
        outcome = JobOutcome.NONE
        nothing = note("gate-without-verdict", Severity.INVALID, status=status)
        say(said(nothing))
        loosening = None if base is None else base.loosening
        append_summary(job.env, filled("nothing.md.j2", why=nothing, loosening=loosening))
    else:
        is_open = document.opens_gate and status == EXIT_OPEN
        outcome = JobOutcome.OPEN if is_open else JobOutcome.SHUT
        for line in gate_annotations(document, prefix=_prefix(job)):
            say(line)
        if document.opens_gate and not is_open:
            say(said(note("open-but-pytest-failed", Severity.INVALID, status=status)))
        try:
            _keep(job, document, captures=inputs.captures)
        except OSError as error:
            outcome = JobOutcome.SHUT
            reason = error.strerror or str(error)
            say(said(note("results-not-copied", Severity.INVALID, reason=reason)))
    is_known = document is not None
    job.output(
        outcome=outcome,
        json=_there(job, JSON) if is_known else "",
        page=_there(job, PAGE),
        files=_there(job, *WRITTEN) if is_known else "",
        kept=_there(job, "kept"),
        captures=_there(job, "captures"),
    )
    if status < 0:
        return 128 - status
    return status or (EXIT_OPEN if outcome is JobOutcome.OPEN else EXIT_SHUT)


def _there(job: Job, *names: str) -> str:
    """Those of the files and folders that are there, a line each."""
    return "\n".join(str(path) for path in (job.folder / name for name in names) if path.exists())


def _document(file: Path) -> GateDocument | None:
    """What the gate found; None where it left nothing that can be read."""
    with contextlib.suppress(OSError, ValueError):
        return read_document(file.read_text(encoding="utf-8"))
    return None


def _prefix(job: Job) -> PurePath:
    """Where the project lies in its repository; where that is not known, at its top."""
    with contextlib.suppress(PerfgateError):
        return git.prefix(job.root, env=job.env)
    return PurePath()


def _keep(job: Job, document: GateDocument, *, captures: bool) -> None:
    """Copy the results of this gate, and if asked the exports of workloads that keep it shut."""
    top = job.kept.resolve()
    for workload in document.workloads:
        folder = (job.root / (workload.files or "")).resolve()
        if not folder.is_relative_to(top / "results"):
            continue
        _copy(folder / RESULT_FILE, job.folder / "kept" / folder.relative_to(top) / RESULT_FILE)
        if captures and not workload.opens_gate:
            target = job.folder / "captures" / file_name(workload.verdict.workload)
            for file in sorted(folder.rglob("*")):
                if is_scrubbed(file.relative_to(folder)):
                    _copy(file, target / file.relative_to(folder))


def is_scrubbed(file: PurePath) -> bool:
    """Whether a file of a run, by its path in the workload's folder, is one that may leave the
    machine.

    Exports that were scrubbed, and nsys's summaries. Not a .nsys-rep, which holds the job's
    environment, not what nsys wrote before it was scrubbed, and not a log, which may hold anything.
    """
    if "nsys" in file.parts[:-1]:
        return False
    export = file.suffix == ".sqlite" and re.fullmatch(r"capture-\d+", file.stem)
    report = file.suffix == ".csv" and re.fullmatch(r"capture-\d+-reports", file.parent.name)
    return bool(export or report)


def _copy(source: Path, target: Path) -> None:
    if source.is_file() and not source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


# The branch that the change is for


def _base(job: Job, inputs: Inputs, say: Say) -> Base | None:
    """What this gate is held to by the base branch; None where no branch is known to be that."""
    named, since = base_branch(job.env)
    branch = inputs.given.get("baseline-branch", named)
    if branch is None:
        return None
    change = Change(
        root=job.root,
        env=job.environment,
        branch=branch,
        since=since if branch == named else None,
        approved=_is_approved(job),
        wants=inputs.wants,
        folder=job.kept / "worktrees",
    )
    found = compare(change, lambda one: say(said(one)))
    return Cleaner(job.env).record(found)


def _is_approved(job: Job) -> bool:
    """Whether a maintainer has approved what is checked out: by its label, or by letting it into
    the merge queue."""
    context = Context.from_env(job.env)
    with contextlib.suppress(PerfgateError):
        if context.event_name == "merge_group":
            return True
        head = labelled_head(context)
        return head is not None and head == git.resolve(job.root, "HEAD", env=job.env)
    return False
