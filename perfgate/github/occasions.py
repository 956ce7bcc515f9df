"""The scheduled gate's occasions: each unchanged repeat is added to its baseline, by one pull request.

The pull request's branch is perfgate's own: each gate makes it anew on the base branch, with the occasions that it held
and were not merged yet.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from perfgate.bless import bless as blessing
from perfgate.github.api import PullRequest, Repository
from perfgate.github.context import Context
from perfgate.github.kept import Checkout, read_result
from perfgate.github.promote import commit_message, shortened
from perfgate.model import numbers
from perfgate.model.baseline import Baseline, Occasion, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BaselineUnreadable,
    BlessRefused,
    PerfgateError,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.limits import LARGEST_BASELINE, LARGEST_RESULT, MOST_ENTRIES
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.words import plural
from perfgate.render.markdown import name, prose
from perfgate.render.page import inert
from perfgate.store import RESULT_FILE, baseline_text

EVENTS: Final = ("schedule", "workflow_dispatch")
"""By which a gate of the base branch is started."""
BRANCH: Final = "perfgate/occasions"
BY: Final = "perfgate, by its schedule"
MOST_RESULTS: Final = MOST_ENTRIES

_DEPTH: Final = 5
"""Parts of results/<machine>/<workload>/<time>/result.json."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extended:
    """One baseline of the pull request."""

    old: Baseline
    """On the base branch."""
    new: Baseline
    path: str
    """POSIX, from the top of the repository."""
    result: Result | None
    """What this gate adds; None of what the pull request held before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """One result that is no occasion, and why."""

    workload: str
    machine: str
    why: PerfgateError


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What the gate's results come to."""

    extended: tuple[Extended, ...]
    left: tuple[Left, ...]

    @property
    def adds(self) -> bool:
        """Whether this gate adds anything."""
        return any(one.result is not None for one in self.extended)


def read_kept(folder: Path, head_sha: str) -> tuple[Result, ...]:
    """Return the results in a folder of downloaded artifacts, whichever folders these came in.

    Raises:
        ResultMissing: there is no such folder.
        ResultUnreadable: one of them is no whole result, or there are too many.
        BlessRefused: one of them is of another commit.
    """
    if not folder.is_dir():
        raise ResultMissing(
            subject=inert(str(folder), longest=200),
            fact="there is no such folder",
            expectation="It should hold the artifacts kept-... of this run",
            next_step="Download them before: actions/download-artifact with pattern: kept-*",
        )
    files = sorted(
        Path(top, file)
        for top, _, names in os.walk(folder, followlinks=False)
        for file in names
        if file == RESULT_FILE
    )
    if len(files) > MOST_RESULTS:
        raise ResultUnreadable(
            subject=inert(str(folder), longest=200),
            fact=f"it holds {len(files)} results",
            expectation=f"At most {MOST_RESULTS} are read",
            next_step="Look at what was downloaded.",
        )
    return tuple(_read(file, folder, head_sha) for file in files)


def _read(file: Path, folder: Path, head_sha: str) -> Result:
    inside = file.relative_to(folder)
    where, path = inside.parts[:-_DEPTH], "/".join(inside.parts[-_DEPTH:])
    try:
        if file.is_symlink():
            raise OSError("it is a link")
        with file.open("rb") as stream:
            raw = stream.read(LARGEST_RESULT + 1)
    except OSError as error:
        raise ResultUnreadable(
            subject=inert(inside.as_posix(), longest=200),
            fact=f"the kept result cannot be read ({error.strerror or error})",
            next_step="Download the artifacts again.",
        ) from error
    return read_result(path, raw, "/".join(where) or str(folder), head_sha)


def refuse_event(context: Context) -> None:
    """Refuse to add what a run measured that is none of the base branch.

    Raises:
        ActionsContextMissing: it was not started by a schedule or by hand.
    """
    if context.event_name not in EVENTS:
        raise ActionsContextMissing(
            subject="occasions",
            fact=f"the event is {inert(context.event_name, longest=40)}",
            expectation=f"A gate of the base branch is started by {' or '.join(EVENTS)}",
            next_step="Call it in a workflow with that trigger; perfgate init writes one.",
        )


def find(
    results: Sequence[Result],
    here: Checkout,
    earlier: Mapping[str, Baseline],
    *,
    at: datetime,
    run_url: str,
    runner: str | None,
) -> Found:
    """Return what each result comes to: an occasion of its baseline, or why it is none.

    Args:
        results: what the gate has kept.
        here: the base branch, as it was measured.
        earlier: by path, baselines of the open pull request that hold occasions which were not merged yet.
        at: now, aware.
        run_url: the gate's run.
        runner: where it ran.
    """
    by_key: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_key.setdefault((result.machine.slug, result.workload.id), []).append(result)
    extended: list[Extended] = []
    left: list[Left] = []
    for (slug, workload), (result, *twins) in sorted(by_key.items()):
        try:
            old = here.store.baselines.load(slug, workload)
            if twins:
                raise BlessRefused(
                    subject=workload,
                    fact=f"the gate has kept {len(twins) + 1} results of it on {result.machine.gpu_name}",
                    expectation="Which of them is meant cannot be told",
                    next_step="Let each workload be in one shard and one gate of a machine only.",
                )
            path = None if old is None else here.path_in_tree(old)
            new = blessing.add_occasion(
                [result],
                earlier.get(path, old) if path is not None else old,
                reason=f"the scheduled gate of {at.astimezone(UTC):%Y-%m-%d}",
                by=BY,
                at=at,
                commit=here.commit,
                in_ci=True,
                allow_ci=True,
                run_url=run_url,
                runner=runner,
            )
        except (BlessRefused, BaselineUnreadable) as refused:
            left.append(Left(workload=workload, machine=result.machine.gpu_name, why=refused))
            continue
        assert old is not None
        assert path is not None
        extended.append(Extended(old=old, new=new, path=path, result=result))
    here_now = {one.path for one in extended}
    for listed in here.store.baselines.listed():
        if isinstance(listed.found, Baseline):
            path = here.path_in_tree(listed.found)
            if path in earlier and path not in here_now:
                extended.append(
                    Extended(old=listed.found, new=earlier[path], path=path, result=None)
                )
    return Found(extended=tuple(extended), left=tuple(left))


def not_merged(
    repository: Repository, pull: PullRequest, here: Checkout, folder: str
) -> dict[str, Baseline]:
    """Return by path the baselines of the base branch with the occasions that an open pull request adds to them.

    What else its branch holds is not looked at, and what it lacks of the base branch's occasions is not lost.

    Args:
        repository: whom to ask.
        pull: the pull request.
        here: the base branch.
        folder: of the baselines, from the top of the repository.
    """
    there = repository.blobs(pull.head_sha, folder)
    found: dict[str, Baseline] = {}
    for listed in here.store.baselines.listed():
        if not isinstance(listed.found, Baseline):
            continue
        path = here.path_in_tree(listed.found)
        blob = there.get(path)
        if blob is None or blob == _blob_of(listed.path.read_bytes()):
            continue
        try:
            more = here.store.baselines.parse(
                repository.blob(blob, limit_bytes=LARGEST_BASELINE), Path(path)
            )
        except BaselineUnreadable:
            continue
        extended = with_added(listed.found, more)
        if extended is not None:
            found[path] = extended
    return found


def with_added(base: Baseline, more: Baseline) -> Baseline | None:
    """Return a baseline with the occasions that another one has added to it, each once, oldest first.

    It loses none of its own by what the other lacks, only the oldest where they would be more than a baseline holds.
    None where the other adds none, differs in anything else, or would leave none of its own.
    """
    if more.model_copy(update={"occasions": base.occasions}) != base:
        return None
    new: list[Occasion] = []
    for occasion in more.occasions:
        if occasion not in base.occasions and occasion not in new:
            new.append(occasion)
    if not new or any(occasion.added is None for occasion in new):
        return None
    whole = sorted((*base.occasions, *new), key=lambda one: one.measured_at)
    while sum(len(one.runs) for one in whole) > blessing.MOST_RUNS:
        whole = whole[1:]
    if not any(one in base.occasions for one in whole):
        return None
    return base.model_copy(update={"occasions": tuple(whole)})


def _blob_of(content: bytes) -> str:
    """The name that git gives to a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def publish(
    repository: Repository,
    context: Context,
    found: Found,
    pull: PullRequest | None,
    *,
    runner: str | None,
) -> PullRequest:
    """Make the branch anew, and open its pull request or give it its new text; return it.

    Raises:
        BranchMoved: somebody else has moved the branch meanwhile.
        GitHubRefused: the token, or the repository's settings, do not allow it.
    """
    head = repository.head(BRANCH) if pull is None else pull.head_sha
    reason = "one more occasion each, measured by the scheduled gate of unchanged code"
    repository.rebuild_branch(
        branch=BRANCH,
        expected_head=head,
        onto=context.sha,
        files={one.path: baseline_text(one.new).encode() for one in found.extended},
        message=commit_message(
            [one.new for one in found.extended],
            reason=reason,
            by=BY,
            run_url=context.run_url,
            runner=runner,
        ),
    )
    count = len(found.extended)
    title = f"perfgate: more occasions for {plural(count, 'baseline')}"
    body = pull_request_markdown(found, context.run_url)
    if pull is not None:
        return repository.edit_pull_request(pull.number, title=title, body=body)
    return repository.open_pull_request(
        head_branch=BRANCH, base_branch=context.branch, title=title, body=body
    )


# What is told of it


def pull_request_markdown(found: Found, run_url: str) -> str:
    """Return the pull request's text: what was added, and what was not and why."""
    what = (
        f"[The scheduled gate]({run_url}) has repeated what is blessed. Unchanged repeats are added to their baselines "
        "as occasions: the more of them, the smaller a slowdown the gate can see. Blessings, anchors and calibrations "
        "stay as they are."
    )
    mind = (
        f"perfgate makes the branch {name(BRANCH)} anew with each scheduled gate: what else is committed to it goes. "
        "GitHub starts no workflow for it by itself; close and open this pull request to let the gate run."
    )
    lines = [what, "", *_tables(found), "", mind]
    return shortened("\n".join(lines) + "\n")


def summary_markdown(found: Found, pull: PullRequest | None) -> str:
    """Return the same for the job's summary."""
    if pull is None:
        told = (
            "No result of this gate is an occasion of a baseline, so there is nothing to propose."
        )
    else:
        told = f"[Pull request {pull.number}]({pull.url}) proposes them."
    return shortened("\n".join(["### perfgate: occasions", "", told, "", *_tables(found), ""]))


def _tables(found: Found) -> list[str]:
    lines: list[str] = []
    if found.extended:
        lines += [
            "| workload | machine | occasions before | after | step_ms then | now | change |",
            "|---|---|---:|---:|---:|---:|---|",
            *(_row(one) for one in found.extended),
        ]
    if found.left:
        lines += ["", "Not added:", "", "| workload | machine | why |", "|---|---|---|"]
        lines += [
            f"| {name(one.workload)} | {name(one.machine)} | {prose(f'{one.why.fact}. {one.why.expectation}.')} |"
            for one in found.left
        ]
    return lines


def _row(one: Extended) -> str:
    then = one.old.values(Metric.STEP_MS)
    now = (
        [run.measured().get(Metric.STEP_MS) for run in one.result.runs]
        if one.result is not None
        else []
    )
    known = [value for value in now if value is not None]
    before, after = median(then) if then else None, median(known) if known else None
    change = (
        None
        if before is None or after is None
        else METRICS[Metric.STEP_MS].change(before, after, step_ms=before)
    )
    cells = (
        name(one.new.workload),
        name(one.new.machine.gpu_name),
        str(len(one.old.occasions)),
        str(len(one.new.occasions)),
        "" if before is None else numbers.value(Metric.STEP_MS, before),
        ("" if after is None else numbers.value(Metric.STEP_MS, after))
        if one.result is not None
        else "not merged yet",
        "" if change is None else prose(numbers.change(change, Basis.LOG)),
    )
    return f"| {' | '.join(cells)} |"
