"""Blessing from CI: the kept results of a commit's own gate become baselines on its branch, and
nothing is measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from github.Repository import Repository

from perfgate.bless import bless as blessing
from perfgate.execute.provenance import code_now
from perfgate.github import api
from perfgate.github.approval import GATE
from perfgate.github.context import Context
from perfgate.github.kept import Checkout, KeptByGate, checkout, kept_by_gate, runner_of
from perfgate.github.request import (
    Branch,
    Request,
    Wish,
    branch_of,
    read_request,
    refuse_strangers,
    wish_of,
)
from perfgate.github.summary import append_summary
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.errors import BlessRefused, PerfgateError, ResultMissing
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.render.markdown import name, prose, shortened
from perfgate.render.records import extent
from perfgate.render.verdict import change_cell
from perfgate.store import baseline_text, file_name
from perfgate.words import numbers
from perfgate.words.escape import one_line
from perfgate.words.names import plural
from perfgate.words.say import message

LONGEST_SUBJECT: Final = 72
"""Characters of the first line of a commit's message."""
MEASURE_MORE: Final = (
    f"Start {GATE} on the branch with runs: {FEWEST_RUNS} "
    "(Actions, perfgate, Run workflow), then ask again."
)

_SPEAKING: Final = re.compile(
    r"(?<=[@#])(?=\S)|(?<=\bGH)(?=-\d)|(?<=\[)(?=(?:skip|no|ci|actions) )", re.IGNORECASE
)
"""Where a message of a commit mentions, refers, closes, or has GitHub start no workflow."""
_BREAK: Final = "\u200b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One baseline that is to be committed."""

    old: Baseline | None
    new: Baseline
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """What was committed, and whether a gate of it was started."""

    planned: tuple[Planned, ...]
    branch: Branch
    commit: str
    not_started: PerfgateError | None = None
    """Why no gate of the new commit was started."""


def bless(root: Path, env: Mapping[str, str], say: Callable[[Note | PerfgateError], None]) -> None:
    """Commit what the gate of a branch's head commit has kept as its baselines, as the job's event
    asks.

    Args:
        root: of the project in the head commit, which is only read.
        env: the job's.
        say: takes what was done, and what of the answer could not be.

    Raises:
        PerfgateError: nothing was blessed, or no gate of the new commit was started.
    """
    context = Context.from_env(env)
    request = read_request(context)
    if request.pull_request is None:
        wish_of(request, env)  # what is wrong with it needs no GitHub to be known
    repository = api.connect(context)
    if request.pull_request is not None:
        # Nobody else is answered: whoever may comment could have perfgate write.
        refuse_strangers(repository, request.by)

    def answer(markdown: str) -> None:
        append_summary(env, markdown)
        if request.pull_request is not None:
            try:
                repository.get_pull(request.pull_request).create_issue_comment(markdown)
            except PerfgateError as error:
                say(error)  # what was done is done; the summary has it

    try:
        promotion = _promoted(root, env, context, repository, request)
    except PerfgateError as error:
        answer(refusal_markdown(error))
        raise
    answer(promotion_markdown(promotion, context))
    paths = tuple(one.path for one in promotion.planned)
    say(
        note(
            "baselines-committed",
            commit=promotion.commit,
            branch=promotion.branch.name,
            paths=paths,
        )
    )
    if promotion.not_started is not None:
        raise promotion.not_started


def _promoted(
    root: Path,
    env: Mapping[str, str],
    context: Context,
    repository: Repository,
    request: Request,
) -> Promotion:
    wish, branch = wish_of(request, env), branch_of(request, context, repository)
    settings = load_settings(root, {})
    here = checkout(root, settings.baselines, branch.head_sha, env=env)
    kept = kept_by_gate(repository, branch, asked_at=request.asked_at)
    origin = Origin(
        by=f"{request.by} via GitHub",
        run_url=context.page_of_run(kept.run.id),
        runner=runner_of(repository, kept.run.id),
    )
    planned = plan(kept, wish, here, settings, origin)
    sha = commit_baselines(
        repository, branch, {one.path: one.new for one in planned}, wish.reason, origin
    )
    not_started: PerfgateError | None = None
    try:
        # A commit that is made with a workflow's own token starts no workflow by itself.
        repository.get_workflow(GATE).create_dispatch(branch.name, throw=True)
    except PerfgateError as error:
        not_started = error
    return Promotion(planned=planned, branch=branch, commit=sha, not_started=not_started)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where baselines come from: who asked, and which run measured them, where."""

    by: str
    run_url: str
    runner: str | None


def plan(
    kept: KeptByGate, wish: Wish, here: Checkout, settings: Settings, origin: Origin
) -> tuple[Planned, ...]:
    """Return the baselines that are to be committed: by the rules of `perfgate bless`, all of them
    or none.

    Raises:
        ResultMissing: the gate has kept nothing of the workload.
        BlessRefused: of one or several workloads; the message is that of the first, and names the
        others.
    """
    wanted = {
        key: result for key, result in kept.results.items() if wish.workload in (None, key[1])
    }
    if not wanted:
        known = tuple(sorted({workload for _, workload in kept.results})[:10])
        raise ResultMissing("kept-without-workload", workload=wish.workload, known=known)
    planned: list[Planned] = []
    refused: dict[str, BlessRefused] = {}
    for (slug, workload), result in wanted.items():
        old = here.store.baselines.load(slug, workload)
        try:
            new = blessing.bless(
                [result],
                old,
                reason=wish.reason,
                by=origin.by,
                at=datetime.now(UTC),
                commit=here.commit,
                code_now=code_now(result.code, here.root, baselines=settings.baselines),
                budgets={**settings.budgets, **result.workload.budgets},
                accept_regression=wish.accept_regression,
                in_ci=True,
                allow_ci=True,
                run_url=origin.run_url,
                runner=origin.runner,
                measure_more=MEASURE_MORE,
                pairs=blessing.allows_pairs(settings),
            )
        except BlessRefused as error:
            refused[workload] = error
            continue
        planned.append(Planned(old=old, new=new, path=here.path_in_tree(new)))
    if refused and len(wanted) > 1:
        raise BlessRefused("bless-all-or-none", count=len(wanted), refused=tuple(refused.values()))
    if refused:
        raise next(iter(refused.values()))
    return tuple(planned)


def commit_baselines(
    repository: Repository,
    branch: Branch,
    baselines: Mapping[str, Baseline],
    reason: str,
    origin: Origin,
) -> str:
    """Commit baselines, by path, to a branch that is still where it was; return the commit.

    Raises:
        BranchMoved: the branch is not where it was; nothing was committed.
        GitHubRefused: the token may not commit there.
    """
    made = api.commit(
        repository,
        onto=branch.head_sha,
        files={path: baseline_text(one) for path, one in baselines.items()},
        message=commit_message([*baselines.values()], reason, origin),
    )
    api.move_branch(repository, branch.name, expected=branch.head_sha, to=made)
    return made


def commit_message(baselines: Sequence[Baseline], reason: str, origin: Origin) -> str:
    """Return a commit's message: what was blessed, the reason in quotation marks, and where it
    comes from as trailers.

    Nothing in it mentions anyone, closes an issue, or keeps a workflow from starting; the reason is
    no trailer.
    """
    names = list(dict.fromkeys(file_name(one.workload) for one in baselines))
    subject = f"bless: {', '.join(names)}"
    if len(subject) > LONGEST_SUBJECT and len(names) > 1:
        subject = f"bless: {len(names)} workloads"
    named = _SPEAKING.sub(_BREAK, one_line(origin.runner or ""))
    runner = [f"Perfgate-Runner: {named}"] if named else []
    lines = [
        _SPEAKING.sub(_BREAK, subject[:LONGEST_SUBJECT]),
        "",
        _SPEAKING.sub(_BREAK, f'"{" ".join(reason.split())}"'),
        "",
        f"Perfgate-Run: {origin.run_url}",
        *runner,
        f"Blessed-by: {one_line(origin.by)}",
    ]
    return "".join(f"{line}\n" for line in lines)


# What is shown of it


def promotion_markdown(promotion: Promotion, context: Context) -> str:
    """Return what was blessed, for the job's summary and as an answer to a comment."""
    first = promotion.planned[0].new.blessing
    sha, head = promotion.commit, promotion.branch.head_sha
    what = (
        f"[{sha[:12]}]({context.page}/commit/{sha}) on {name(promotion.branch.name)}, of what "
        f"[the gate of {head[:12]}]({first.run_url}) has kept. Nothing was measured for it."
    )
    gate = f"The gate of the new commit ({GATE}) was started."
    if promotion.not_started is not None:
        gate = f"**The gate of the new commit was not started:** {prose(message(promotion.not_started))}"
    lines = [
        f"### perfgate: blessed {plural(len(promotion.planned), 'baseline')}",
        "",
        what,
        "",
        f"Reason: {prose(first.reason)}",
        "",
        gate,
        "",
        *baselines_table(promotion.planned),
    ]
    return shortened("\n".join(lines) + "\n")


def refusal_markdown(error: PerfgateError) -> str:
    """Return why nothing was blessed."""
    lines = [prose(line) for line in message(error).splitlines()]
    return "### perfgate: nothing was blessed\n\n" + "  \n".join(lines) + "\n"


def baselines_table(planned: Sequence[Planned]) -> list[str]:
    """Return what becomes of each baseline as a table of Markdown."""
    return [
        "| workload | machine | step_ms before | after | change | also changed | rests on |",
        "|---|---|---:|---:|---|---|---|",
        *(_row(one) for one in planned),
    ]


def _row(one: Planned) -> str:
    rows = {row.metric: row for row in blessing.differences(one.old, one.new)}
    step = rows.pop(Metric.STEP_MS, None)
    values = (None, None) if step is None else (step.baseline, step.now)
    cells = (
        name(one.new.workload),
        name(one.new.machine.gpu_name),
        *("" if value is None else numbers.value(Metric.STEP_MS, value) for value in values),
        "" if step is None else prose(change_cell(step)),
        prose(", ".join(f"{row.metric} {change_cell(row)}" for row in rows.values() if row.change)),
        prose(extent(one.new)),
    )
    return f"| {' | '.join(cells)} |"
