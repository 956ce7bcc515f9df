"""A gate as a step of a job of GitHub Actions: its inputs, its files, what it says, and what it leaves behind.

Inputs are environment variables, never parts of a command. Files lie where the action's other steps find them::

    .perfgate/github/perfgate.json, page.json, perfgate.html, junit.xml
    .perfgate/github/kept/results/<machine>/<workload>/<time>/result.json      what bless may promote
    .perfgate/github/captures/<workload>/<run>/...                             if asked: scrubbed exports
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from perfgate.execute.worktree import remove_abandoned
from perfgate.github.approval import labelled_head
from perfgate.github.base import compare
from perfgate.github.context import Context, is_sha
from perfgate.model.document import GateDocument, read_document
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    ActionsContextMissing,
    ConfigInvalid,
    PerfgateError,
    StoreFailed,
)
from perfgate.model.loosening import Base
from perfgate.model.order import RUN_COOKIE
from perfgate.model.pyproject import load_settings
from perfgate.model.secrets import Cleaner
from perfgate.model.words import plural
from perfgate.pytest_door import gate_command, run_to_end
from perfgate.render.annotations import command, gate_annotations
from perfgate.render.markdown import loosening_markdown, prose
from perfgate.render.page import inert
from perfgate.store import RESULT_FILE, file_name
from perfgate.system import git
from perfgate.system.process import adopting, end_marked, processes_of

KEPT: Final = ".perfgate"
"""perfgate's own folder in a project, which ignores itself in git."""
INPUT: Final = "PERFGATE_INPUT_"
INTERRUPTED: Final = 2
"""pytest's exit status for it."""
WIDTH: Final = "120"
"""Columns of a job's log, which says none."""
MOST_TOLD: Final = 5
"""Files that are named where the workspace is not clean."""

NOT_FOR_WORKLOADS: Final = frozenset(
    {"GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"}
)
"""By these files a step speaks to the runner and to later steps. What is measured has nothing to say to them."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MACHINE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_SHARD: Final = re.compile(r"[0-9]{1,4}/[0-9]{1,4}")


class JobOutcome(StrEnum):
    """What came of a gate, as the action's output tells it."""

    OPEN = "open"
    SHUT = "shut"
    NONE = "none"
    """It came to no end: nothing is known, so it is no pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What the action was given, checked; None and empty where it was not."""

    name: str = "perfgate"
    workloads: tuple[str, ...] = ()
    """Paths and node ids, as pytest takes them."""
    shard: str | None = None
    machine: str | None = None
    """What the runner must be, by the folder of its baselines."""
    runs: str | None = None
    max_runs: str | None = None
    time_budget: str | None = None
    budgets: tuple[str, ...] = ()
    """As `step_ms=0.03`."""
    inconclusive: str | None = None
    new: str | None = None
    against: str | None = None
    baseline_branch: str | None = None
    nsys: str | None = None
    captures: bool = False

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Inputs:
        """Take the inputs from `PERFGATE_INPUT_*`; what the gate's own options check is left to them.

        Raises:
            ConfigInvalid: one of them is nothing that it can be.
        """

        def given(name: str) -> str | None:
            return env.get(INPUT + name, "").strip() or None

        def fitting(name: str, fits: Callable[[str], object], expectation: str) -> str | None:
            text = given(name)
            if text is not None and not fits(text):
                raise _invalid(name, text, expectation)
            return text

        workloads = tuple(
            line.strip() for line in env.get(INPUT + "WORKLOADS", "").splitlines() if line.strip()
        )
        for line in workloads:
            if line.startswith("-"):
                raise _invalid(
                    "WORKLOADS", line, "It holds a path or node id a line, and no options"
                )
        captures = given("CAPTURES") or "false"
        if captures not in {"true", "false"}:
            raise _invalid("CAPTURES", captures, "It should be true or false")
        return cls(
            name=fitting(
                "NAME", _NAME.fullmatch, "It should be letters, digits, '.', '_' and '-', up to 100"
            )
            or "perfgate",
            workloads=workloads,
            shard=fitting(
                "SHARD", _SHARD.fullmatch, "It should be a part of the workloads, such as 1/2"
            ),
            machine=fitting(
                "MACHINE",
                _MACHINE.fullmatch,
                "It should be a folder of baselines, such as nvidia-h200",
            ),
            runs=given("RUNS"),
            max_runs=given("MAX_RUNS"),
            time_budget=given("TIME_BUDGET"),
            budgets=tuple((given("BUDGETS") or "").split()),
            inconclusive=given("INCONCLUSIVE"),
            new=given("NEW"),
            against=given("AGAINST"),
            baseline_branch=fitting(
                "BASELINE_BRANCH", git.is_branch, "It should be the name of a branch"
            ),
            nsys=given("NSYS"),
            captures=captures == "true",
        )

    def wants(self, workload: str, source: str | None) -> bool:
        """Whether a workload, declared in this file of the project, is among what is to be gated."""
        for line in self.workloads:
            path, _, named = line.partition("::")
            if (
                workload == named
                or workload.startswith(f"{named}[")
                or (not named and source is not None and PurePosixPath(source).is_relative_to(path))
            ):
                return True
        return not self.workloads


def _invalid(name: str, value: str, expectation: str) -> ConfigInvalid:
    return ConfigInvalid(
        subject=f"input {_input(name)}",
        fact=f"the value is {value[:80]!r}",
        expectation=expectation,
        next_step="Correct it in the workflow.",
    )


def _input(name: str) -> str:
    """An input as the workflow calls it."""
    return name.lower().replace("_", "-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Files:
    """Where the files of a gate lie."""

    folder: Path

    @property
    def json(self) -> Path:
        """All verdicts and values."""
        return self.folder / "perfgate.json"

    @property
    def page_data(self) -> Path:
        """What the page is made of."""
        return self.folder / "page.json"

    @property
    def page(self) -> Path:
        """The page."""
        return self.folder / "perfgate.html"

    @property
    def base(self) -> Path:
        """What is known of the branch that the change is for."""
        return self.folder / "base.json"

    @property
    def junit(self) -> Path:
        """pytest's own."""
        return self.folder / "junit.xml"

    @property
    def kept(self) -> Path:
        """Results that bless may promote."""
        return self.folder / "kept"

    @property
    def captures(self) -> Path:
        """Scrubbed exports of workloads that keep the gate shut."""
        return self.folder / "captures"

    @property
    def written(self) -> tuple[Path, ...]:
        """Of the first four, those that are there."""
        return tuple(
            file for file in (self.json, self.page_data, self.page, self.junit) if file.is_file()
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The step that a gate is."""

    root: Path
    """The project's."""
    cwd: Path
    env: Mapping[str, str]
    python: str

    @property
    def files(self) -> Files:
        """Where its files lie."""
        return Files(folder=self.root / KEPT / "github")

    @property
    def mark(self) -> str:
        """What every process of this gate bears in its environment; `clean` finds them by it."""
        names = ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_NAME", INPUT + "NAME")
        return re.sub(
            r"[^A-Za-z0-9._-]",
            "-",
            "-".join(["github", *(self.env.get(name, "") for name in names)]),
        )


def gate_options(inputs: Inputs, files: Files, *, summary: Path | None) -> tuple[str, ...]:
    """Return pytest's options for a gate with these inputs. No input can become another option than its own."""
    told = {
        "runs": inputs.runs,
        "max-runs": inputs.max_runs,
        "time-budget": inputs.time_budget,
        "inconclusive": inputs.inconclusive,
        "new": inputs.new,
        "against": inputs.against,
        "shard": inputs.shard,
        "machine": inputs.machine,
        "nsys": inputs.nsys,
        "label": inputs.name,
        "json": files.json,
        "page-data": files.page_data,
        "html": files.page,
        "markdown": summary,
    }
    return (
        *(f"--perfgate-{option}={value}" for option, value in told.items() if value is not None),
        *(f"--perfgate-budget={budget}" for budget in inputs.budgets),
        f"--junit-xml={files.junit}",
        *inputs.workloads,
    )


def run(job: Job, say: Callable[[str], None]) -> int:
    """Run the gate, write its files and outputs, say what the runner is to show, and return the exit status.

    That is pytest's own; never 0 where the gate is not known to be open.

    Args:
        job: the step.
        say: takes each line for the job's log.

    Raises:
        PerfgateError: nothing was measured; the output `outcome` is none.
        KeyboardInterrupt: likewise, before the gate began.
    """
    outputs = _OutputFile.of(job.env)
    try:
        inputs = Inputs.from_env(job.env)
        _check_settings(job, inputs)
        _empty(job)
        base = _base(job, inputs, say)
    except BaseException as error:
        if isinstance(error, PerfgateError):
            say(command("error", str(error), title="perfgate"))
        outputs.write(outcome=JobOutcome.NONE)
        raise
    # What workloads print is not for the runner: without this, a line that begins with :: would be a command to it.
    token = secrets.token_hex(16)
    say(f"::stop-commands::{token}")
    with adopting() as end_adopted:
        try:
            status = _measured(job, inputs, base, say)
        finally:
            with _undisturbed():
                left = (*end_marked(job.mark), *end_adopted())
                if left:
                    say(f"Ended what the gate had left running: {', '.join(map(inert, left))}.")
                say(f"\n::{token}::")
    with _undisturbed():
        return _told(job, inputs, status, outputs, base, say)


def _check_settings(job: Job, inputs: Inputs) -> None:
    """Refuse settings that this gate cannot have, before anything is looked at.

    Raises:
        ConfigInvalid: those of the project, or an input, are not accepted.
    """
    options = {
        "runs": inputs.runs,
        "max_runs": inputs.max_runs,
        "time_budget_s": inputs.time_budget,
        "budgets": inputs.budgets,
        "inconclusive": inputs.inconclusive,
        "new": inputs.new,
    }
    try:
        load_settings(job.root, options)
    except ConfigInvalid as invalid:
        raise ConfigInvalid(
            subject=invalid.subject.replace("--perfgate-", "input "),
            fact=invalid.fact,
            expectation=invalid.expectation,
            next_step=invalid.next_step,
        ) from None


def _empty(job: Job) -> None:
    """Make the folder of the files anew: nothing of an earlier gate may be taken for this one's.

    Raises:
        StoreFailed: it cannot be, or leads elsewhere.
    """
    folder = job.files.folder
    for place in (folder.parent, folder):
        if place.is_symlink():
            raise StoreFailed(
                subject=str(place),
                fact="it is a link",
                expectation="perfgate's own folder is emptied, and what is behind a link would be lost",
                next_step="Delete the link.",
            )
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        ignore = folder.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreFailed(
            subject=str(folder),
            fact=f"it cannot be emptied ({error.strerror or error})",
            expectation="What lies there could be taken for this gate's",
            next_step="Delete the folder on the runner.",
        ) from error


# The gate itself


def _measured(job: Job, inputs: Inputs, base: Base | None, say: Callable[[str], None]) -> int:
    """Run pytest to its end, and return its exit status."""
    summary = job.env.get("GITHUB_STEP_SUMMARY")
    options = gate_options(inputs, job.files, summary=None if not summary else Path(summary))
    if base is not None:
        job.files.base.write_text(base.model_dump_json(), encoding="utf-8")
        options = (f"--perfgate-base={job.files.base}", *options)
    try:
        return run_to_end(
            gate_command(job.python, *options, root=job.root),
            cwd=job.cwd,
            env=gate_environment(job),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        say(f"{job.python} cannot be started: {error.strerror or error}")
        return EXIT_SHUT


def gate_environment(job: Job) -> dict[str, str]:
    """Return the environment of the gate: this one's, without what is the action's alone."""
    inherited = job.env.get(RUN_COOKIE)
    kept = {
        name: value
        for name, value in job.env.items()
        if name not in NOT_FOR_WORKLOADS and not name.startswith(INPUT)
    }
    return {
        "COLUMNS": WIDTH,
        **kept,
        RUN_COOKIE: f"{inherited}:{job.mark}" if inherited else job.mark,
    }


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no further signal of a cancelled job end the clearing up; SIGKILL comes soon enough."""
    numbers = (
        (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
        else ()
    )
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(
    job: Job,
    inputs: Inputs,
    status: int,
    outputs: _OutputFile,
    base: Base | None,
    say: Callable[[str], None],
) -> int:
    """Say and write what came of it, and return the exit status of the step."""
    files = job.files
    document, why = _document(files.json)
    remarks: list[str] = []
    if document is None:
        outcome = JobOutcome.NONE
        told = (
            f"The gate ended with exit status {status} and left no verdict: {why}. "
            "Nothing is known of any workload, and nothing known is not a pass. The log above has the reason."
        )
        say(command("error", told, title="perfgate"))
        differing = [] if base is None else loosening_markdown(base.loosening)
        remarks = [
            "## perfgate: no verdict",
            "",
            prose(told),
            *(["", *differing] if differing else []),
        ]
    else:
        outcome = (
            JobOutcome.OPEN if document.opens_gate and status == EXIT_OPEN else JobOutcome.SHUT
        )
        for line in gate_annotations(document, prefix=_prefix(job)):
            say(line)
        if document.opens_gate and status != EXIT_OPEN:
            say(
                command(
                    "error",
                    f"The verdicts open the gate, but pytest ended with exit status {status}.",
                    title="perfgate",
                )
            )
        try:
            _keep(job, document, captures=inputs.captures)
        except OSError as error:
            outcome = JobOutcome.SHUT
            fact = f"The kept results cannot be copied ({error.strerror or error})."
            say(command("error", fact, title="perfgate"))
    outputs.write(
        outcome=outcome,
        json=_shown([files.json] if document is not None else []),
        page=_shown([files.page]),
        files=_shown(files.written if document is not None else []),
        kept=_shown([files.kept]),
        captures=_shown([files.captures]),
    )
    if job.env.get("GITHUB_STEP_SUMMARY") and remarks:
        _append(Path(job.env["GITHUB_STEP_SUMMARY"]), "\n" + "\n".join(remarks) + "\n")
    if status < 0:
        return 128 - status
    return status or (EXIT_OPEN if outcome is JobOutcome.OPEN else EXIT_SHUT)


def _shown(paths: Sequence[Path]) -> str:
    """Those of them that are there, a line each."""
    return "\n".join(str(path) for path in paths if path.exists())


def _document(file: Path) -> tuple[GateDocument | None, str]:
    """What the gate found, or why that cannot be told."""
    try:
        return read_document(file.read_text(encoding="utf-8")), ""
    except FileNotFoundError:
        return None, "it wrote no JSON document"
    except OSError as error:
        return None, f"its JSON document cannot be read ({error.strerror or error})"
    except ValueError:
        return None, "its JSON document is broken"


def _prefix(job: Job) -> PurePath:
    """Where the project lies in its repository; where that cannot be told, at its top."""
    try:
        return git.prefix(job.root, env=job.env)
    except PerfgateError:
        return PurePath()


def _keep(job: Job, document: GateDocument, *, captures: bool) -> None:
    """Copy the results of this gate, and if asked the exports of workloads that keep it shut."""
    top = job.root / KEPT
    for workload in document.workloads:
        if workload.files is None:
            continue
        folder = (job.root / workload.files).resolve()
        if not folder.is_relative_to(top.resolve() / "results"):
            continue
        inner = folder.relative_to(top.resolve())
        if (folder / RESULT_FILE).is_file():
            _copy(folder / RESULT_FILE, job.files.kept / inner / RESULT_FILE)
        if captures and not workload.opens_gate:
            for file in sorted(folder.rglob("*")):
                if is_scrubbed(file.relative_to(folder)):
                    _copy(
                        file,
                        job.files.captures
                        / file_name(workload.verdict.workload)
                        / file.relative_to(folder),
                    )


def is_scrubbed(file: PurePath) -> bool:
    """Whether a file of a run, by its path in the workload's folder, is one that may leave the machine.

    Exports that were scrubbed, and nsys's summaries. Not a .nsys-rep, which holds the job's environment, not what nsys
    wrote before it was scrubbed, and not a log, which may hold anything.
    """
    if "nsys" in file.parts[:-1]:
        return False
    export = file.suffix == ".sqlite" and re.fullmatch(r"capture-\d+", file.stem)
    report = file.suffix == ".csv" and re.fullmatch(r"capture-\d+-reports", file.parent.name)
    return bool(export or report)


def _copy(source: Path, target: Path) -> None:
    if source.is_symlink() or not source.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


# The branch that the change is for


def _base(job: Job, inputs: Inputs, say: Callable[[str], None]) -> Base | None:
    """What this gate is held to by the base branch; None where no branch is known to be that."""
    told, since = _base_branch(job.env)
    branch = inputs.baseline_branch or told
    if branch is None:
        return None
    found = compare(
        job.root,
        branch,
        folder=job.root / KEPT / "worktrees",
        env=gate_environment(job),
        since=since if branch == told else None,
        approved=_is_approved(job),
        wants=inputs.wants,
        say=say,
    )
    return Cleaner(job.env).record(found)


def _is_approved(job: Job) -> bool:
    """Whether a maintainer has approved what is checked out: by its label, or by letting it into the merge queue."""
    context = Context.from_env(job.env)
    try:
        if context.event_name == "merge_group":
            return True
        head = labelled_head(context)
        return head is not None and head == git.resolve(job.root, "HEAD", env=job.env)
    except PerfgateError:
        return False


def _base_branch(env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The branch that a pull request or a merge queue is for, else the default one; None where none is known.

    And of a merge queue the commit that it has put the change on: the branch with all that waits before it.
    """
    told: object = env.get("GITHUB_BASE_REF")
    since: object = None
    if not told:
        try:
            event = Context.from_env(env).event()
        except ActionsContextMissing:
            return None, None
        group, repository = event.get("merge_group"), event.get("repository")
        if isinstance(group, dict):
            told, since = group.get("base_ref"), group.get("base_sha")
        elif isinstance(repository, dict):
            told = repository.get("default_branch")
    branch = told.removeprefix("refs/heads/") if isinstance(told, str) else ""
    return branch if git.is_branch(branch) else None, since if isinstance(since, str) and is_sha(
        since
    ) else None


# What a runner is left with


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What was found and done away with, in sentences, and whether the runner is as free as it should be."""

    told: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def clean(job: Job, *, before: bool) -> Cleaned:
    """End what a gate has left running, remove what it has checked out and kept, and look at the workspace.

    Args:
        job: the step; `mark` tells the processes, and the name of the gate is a part of it.
        before: whether a gate is yet to come. What lies under `.perfgate` is then none of this job's to publish.

    Raises:
        ConfigInvalid: it is no job of GitHub Actions: results that somebody keeps would be lost.
    """
    if job.env.get("GITHUB_ACTIONS") != "true":
        raise ConfigInvalid(
            subject="github clean",
            fact="this is no job of GitHub Actions",
            expectation="It deletes kept results, which at a desk wait to be blessed",
            next_step="Delete .perfgate yourself, if you want that.",
        )
    told: list[str] = []
    warnings: list[str] = []
    ended = end_marked(job.mark)
    if ended:
        told.append(f"Ended processes of this gate that still ran: {', '.join(map(inert, ended))}.")
    left = processes_of(job.mark)
    still = plural(len(left), "process", "processes")
    errors = [f"{still} of this gate cannot be ended, and may hold the GPU."] if left else []
    try:
        removed = remove_abandoned(job.root, job.root / KEPT / "worktrees", env=job.env)
        told += [
            f"Removed the checkout {name} that a gate had left beside the project."
            for name in removed
        ]
    except OSError as error:
        warnings.append(f"Checkouts of a gate cannot be removed ({error.strerror or error}).")
    # The files of this gate stay: later steps of the job read them by the action's outputs.
    for folder in ("results", *(["github"] if before else [])):
        warnings += _remove(job.root / KEPT / folder)
    try:
        changes = git.changes(job.root, env=job.env)
    except PerfgateError as unknown:
        warnings.append(f"git cannot say whether the workspace is clean: {unknown.fact}.")
    else:
        if changes:
            more = f" and {len(changes) - MOST_TOLD} more" if len(changes) > MOST_TOLD else ""
            first = ", ".join(map(inert, changes[:MOST_TOLD]))
            what = f"{len(changes)} file{'s' if len(changes) > 1 else ''} changed or not tracked: {first}{more}."
            warnings.append(
                f"The workspace is not clean before the gate, so that its results cannot be blessed. {what}"
                if before
                else f"The workspace is not clean after the gate. {what}"
            )
    if not (told or warnings or errors):
        told.append("The workspace is clean, and nothing of a gate runs.")
    return Cleaned(told=tuple(told), warnings=tuple(warnings), errors=tuple(errors))


def _remove(folder: Path) -> Sequence[str]:
    """Remove a folder of perfgate's own; return a sentence where it cannot be."""
    if folder.is_symlink() or folder.parent.is_symlink():
        return [f"{folder} is a link, and was left."]
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        return [f"{folder} cannot be removed ({error.strerror or error})."]
    return []


# The runner's files


@dataclass(frozen=True, kw_only=True, slots=True)
class _OutputFile:
    """The file by which a step hands values to later ones; outside a job there is none."""

    path: Path | None

    @classmethod
    def of(cls, env: Mapping[str, str]) -> _OutputFile:
        return cls(path=Path(env["GITHUB_OUTPUT"]) if env.get("GITHUB_OUTPUT") else None)

    def write(self, **values: str) -> None:
        """Append values, whatever they hold.

        Raises:
            StoreFailed: the file does not take them.
        """
        if self.path is not None:
            _append(self.path, "".join(output_text(name, value) for name, value in values.items()))


def output_text(name: str, value: str) -> str:
    """One value as the runner reads it; its delimiter cannot be in the value."""
    delimiter = f"perfgate_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as error:
        raise StoreFailed(
            subject=str(file),
            fact=f"it cannot be written ({error.strerror or error})",
            expectation="The runner reads from it what the gate has come to",
            next_step="See to the runner's disk.",
        ) from error
