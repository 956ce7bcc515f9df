"""Blessing from CI: the kept results of a commit's own gate become baselines on its branch, and nothing is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from perfgate.bless import bless as blessing
from perfgate.github.api import Repository
from perfgate.github.context import Context
from perfgate.github.kept import WORKFLOW, Checkout, Kept
from perfgate.github.request import Branch, Wish
from perfgate.model import numbers
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.errors import BlessRefused, PerfgateError, ResultMissing
from perfgate.model.metric import Metric
from perfgate.model.verdict import MetricVerdict
from perfgate.model.words import plural
from perfgate.render.markdown import LONGEST, LONGEST_SENTENCE, name, prose
from perfgate.render.page import inert, uncommanding
from perfgate.render.records import extent
from perfgate.render.text import change_cell
from perfgate.store import baseline_text, file_name

LONGEST_SUBJECT: Final = 72
"""Characters of the first line of a commit's message."""
MEASURE_MORE: Final = f"Start {WORKFLOW} on the branch with runs: {FEWEST_RUNS} (Actions, perfgate, Run workflow), then ask again."

_SPEAKING: Final = re.compile(
    r"(?<=[@#])(?=\S)|(?<=\bGH)(?=-\d)|(?<=\[)(?=(?:skip|no|ci|actions) )", re.IGNORECASE
)
"""Where a message of a commit mentions, refers, closes, or tells GitHub to start no workflow."""
_BREAK: Final = "\u200b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One baseline that is to be committed."""

    old: Baseline | None
    new: Baseline
    path: str

    @property
    def content(self) -> bytes:
        """Return the file."""
        return baseline_text(self.new).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What was committed, and whether a gate of it was started."""

    planned: tuple[Planned, ...]
    branch: Branch
    commit: str
    reason: str
    run_url: str
    not_started: PerfgateError | None = None
    """Why no gate of the new commit was started."""


def plan(
    kept: Kept,
    wish: Wish,
    here: Checkout,
    *,
    budgets: Mapping[Metric, float],
    by: str,
    at: datetime,
    run_url: str,
    runner: str | None,
    pairs: bool = True,
) -> tuple[Planned, ...]:
    """Return the baselines that are to be committed: by the rules of `perfgate bless`, all of them or none.

    `budgets` are the project's, as fractions; `pairs` says whether its settings allow A/B runs.

    Raises:
        ResultMissing: the gate has kept nothing of the workload.
        BlessRefused: of one or several workloads; the message is that of the first, and counts the others.
    """
    wanted = {
        key: results for key, results in kept.results.items() if wish.workload in (None, key[1])
    }
    if not wanted:
        known = sorted({workload for _, workload in kept.results})
        raise ResultMissing(
            subject=inert(wish.workload or "bless"),
            fact="the gate of this commit has kept no result of it",
            expectation=f"Kept are: {', '.join(map(inert, known[:10])) or 'none'}"
            + (f" and {len(known) - 10} more" if len(known) > 10 else ""),
            next_step="Name one of these.",
        )
    planned: list[Planned] = []
    refused: list[BlessRefused] = []
    for (slug, workload), results in sorted(wanted.items()):
        old = here.store.baselines.load(slug, workload)
        try:
            new = blessing.bless(
                results,
                old,
                reason=wish.reason,
                by=by,
                at=at,
                commit=here.commit,
                code_now=here.code_now(results[0].code),
                budgets={**budgets, **results[0].workload.budgets},
                accept_regression=wish.accept_regression,
                in_ci=True,
                allow_ci=True,
                run_url=run_url,
                runner=runner,
                measure_more=MEASURE_MORE,
                pairs=pairs,
            )
        except BlessRefused as error:
            refused.append(error)
            continue
        planned.append(Planned(old=old, new=new, path=here.path_in_tree(new)))
    if refused:
        raise _all_or_nothing(refused, len(wanted))
    return tuple(planned)


def _all_or_nothing(refused: Sequence[BlessRefused], wanted: int) -> BlessRefused:
    first, *others = refused
    if wanted == 1:
        return first
    also = f"; refused too: {', '.join(inert(one.subject) for one in others[:5])}" if others else ""
    more = f" and {len(others) - 5} more" if len(others) > 5 else ""
    return BlessRefused(
        subject=first.subject,
        fact=f"{first.fact}{also}{more}",
        expectation=f"{first.expectation}. Of {wanted} baselines none was committed",
        next_step=first.next_step,
    )


def commit(
    repository: Repository, branch: Branch, planned: Sequence[Planned], wish: Wish, *, by: str
) -> Promotion:
    """Commit the baselines to the branch, and start the gate of the new commit.

    A commit that is made with a workflow's own token starts no workflow by itself.

    Raises:
        BranchMoved: the branch is not where it was; nothing was committed.
        GitHubRefused: the token may not commit there.
    """
    first = planned[0].new.blessing
    run_url = first.run_url or ""
    message = commit_message(
        [one.new for one in planned],
        reason=wish.reason,
        by=by,
        run_url=run_url,
        runner=first.runner,
    )
    sha = repository.commit_files(
        branch=branch.name,
        expected_head=branch.head_sha,
        files={one.path: one.content for one in planned},
        message=message,
    )
    not_started: PerfgateError | None = None
    try:
        repository.dispatch(WORKFLOW, ref=branch.name, inputs={})
    except PerfgateError as error:
        not_started = error
    return Promotion(
        planned=tuple(planned),
        branch=branch,
        commit=sha,
        reason=wish.reason,
        run_url=run_url,
        not_started=not_started,
    )


def commit_message(
    baselines: Sequence[Baseline], *, reason: str, by: str, run_url: str, runner: str | None
) -> str:
    """Return a commit's message: what was blessed, the reason in quotation marks, and where it comes from as trailers.

    Nothing in it mentions anyone, closes an issue, or keeps a workflow from starting; the reason is no trailer.
    """
    names = list(dict.fromkeys(file_name(one.workload) for one in baselines))
    subject = f"bless: {', '.join(names)}"
    if len(subject) > LONGEST_SUBJECT:
        subject = (
            f"bless: {len(names)} workloads"
            if len(names) > 1
            else f"{subject[: LONGEST_SUBJECT - 3]}..."
        )
    trailers = [f"Perfgate-Run: {run_url}"]
    trailers += [f"Perfgate-Runner: {_still(inert(runner, longest=200))}"] if runner else []
    trailers.append(f"Blessed-by: {_still(inert(by))}")
    return (
        "\n".join([_still(subject), "", f'"{_still(" ".join(reason.split()))}"', "", *trailers])
        + "\n"
    )


def _still(text: str) -> str:
    return _SPEAKING.sub(_BREAK, text)


# What is told of it


def promotion_markdown(promotion: Promotion, context: Context) -> str:
    """Return what was blessed, for the job's summary and as an answer to a comment."""
    address = f"{context.server_url}/{context.repository}"
    count = len(promotion.planned)
    what = (
        f"[{promotion.commit[:12]}]({address}/commit/{promotion.commit}) on {name(promotion.branch.name)}, of what "
        f"[the gate of {promotion.branch.head_sha[:12]}]({promotion.run_url}) has kept. Nothing was measured for it."
    )
    if promotion.not_started is None:
        gate = f"The gate of the new commit ({WORKFLOW}) was started."
    else:
        told = f"The gate of the new commit was not started: {promotion.not_started.fact}."
        gate = f"**{prose(told)}** {prose(promotion.not_started.next_step)}"
    lines = [
        f"### perfgate: blessed {plural(count, 'baseline')}",
        "",
        what,
        "",
        f"Reason: {prose(promotion.reason)}",
        "",
        gate,
        "",
        "| workload | machine | step_ms before | after | change | also changed | rests on |",
        "|---|---|---:|---:|---|---|---|",
        *(_promoted_row(one) for one in promotion.planned),
    ]
    return shortened("\n".join(lines) + "\n")


def shortened(text: str) -> str:
    """Return a text of lines that GitHub takes as a comment."""
    return (
        text
        if len(text) <= LONGEST
        else f"{text[:LONGEST].rpartition(chr(10))[0]}\n\nThe rest is too long.\n"
    )


def harmless(error: PerfgateError) -> PerfgateError:
    """Return an error whose parts may be a stranger's text as one that gives a job's log no commands."""

    def part(text: str) -> str:
        return uncommanding(inert(text, longest=LONGEST_SENTENCE))

    return type(error)(
        subject=part(error.subject),
        fact=part(error.fact),
        expectation=part(error.expectation),
        next_step=part(error.next_step),
    )


def refusal_markdown(error: PerfgateError) -> str:
    """Return why nothing was blessed."""
    told = [prose(line) for line in str(error).splitlines()]
    return (
        "\n".join(["### perfgate: nothing was blessed", "", *("  \n".join(told)).splitlines()])
        + "\n"
    )


def _promoted_row(one: Planned) -> str:
    rows = {row.metric: row for row in blessing.differences(one.old, one.new)}
    step = rows.get(Metric.STEP_MS)
    other = [row for metric, row in rows.items() if metric is not Metric.STEP_MS and row.change]
    also = ", ".join(f"{row.metric} {change_cell(row)}" for row in other)
    cells = (
        name(one.new.workload),
        name(one.new.machine.gpu_name),
        milliseconds(step, before=True),
        milliseconds(step, before=False),
        "" if step is None else prose(change_cell(step)),
        prose(also),
        prose(extent(one.new)),
    )
    return f"| {' | '.join(cells)} |"


def milliseconds(row: MetricVerdict | None, *, before: bool) -> str:
    """Return one side of a difference of step times; empty where there is none."""
    value = None if row is None else row.baseline if before else row.now
    return "" if value is None else numbers.value(Metric.STEP_MS, value)
