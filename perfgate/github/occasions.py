"""The scheduled gate's occasions: each unchanged repeat is added to its baseline, by one pull
request.

The pull request's branch is perfgate's own: each gate makes it anew on the base branch, with the
occasions that it held and were not merged yet.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from github.PullRequest import PullRequest
from github.Repository import Repository

from perfgate.bless import bless as blessing
from perfgate.github import api
from perfgate.github.approval import name_of
from perfgate.github.context import Context
from perfgate.github.kept import (
    Checkout,
    by_workload,
    checkout,
    kept_by_run,
    runner_of,
    twice_kept,
)
from perfgate.github.promote import Origin, Planned, baselines_table, commit_message
from perfgate.github.summary import append_summary
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BaselineUnreadable,
    BlessRefused,
    PerfgateError,
)
from perfgate.model.note import Note, note
from perfgate.model.pyproject import load_settings
from perfgate.render.markdown import name, prose, shortened
from perfgate.store import baseline_text
from perfgate.words.names import plural
from perfgate.words.say import message

EVENTS: Final = ("schedule", "workflow_dispatch")
"""By which a gate of the base branch is started."""
BRANCH: Final = "perfgate/occasions"
BY: Final = "perfgate, by its schedule"
REASON: Final = "one more occasion each, measured by the scheduled gate of unchanged code"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultsOfGate:
    """What the gate's results come to."""

    planned: tuple[Planned, ...]
    """The baselines of the pull request."""
    added: int
    """How many occasions this gate adds; the others were there before."""
    left: tuple[tuple[Result, PerfgateError], ...]
    """Results that are no occasion, and why."""


def propose(root: Path, env: Mapping[str, str], say: Callable[[Note], None]) -> None:
    """Add what this run's gate has kept to the baselines, as occasions, by one pull request.

    Args:
        root: of the project in the commit of this run, which is one of the base branch.
        env: the job's.
        say: takes what was done.

    Raises:
        ActionsContextMissing: it was not started by a schedule or by hand.
        ResultMissing, ResultUnreadable, BlessRefused: what was kept is not of this commit, or not
        whole. BranchMoved: somebody else has moved the branch meanwhile. GitHubRefused: the token,
        or the repository's settings, do not allow it.
    """
    context = Context.from_env(env)
    if context.event_name not in EVENTS:
        raise ActionsContextMissing("occasions-event-wanted", event=context.event_name)
    repository = api.connect(context)
    here = checkout(root, load_settings(root, {}).baselines, context.sha, env=env)
    run = repository.get_workflow_run(context.run_id)
    results = tuple(kept_by_run(run, context.sha))
    pull = _pull_request(repository)
    earlier = {} if pull is None else not_merged(repository, pull, here)
    origin = Origin(
        by=BY,
        run_url=context.page_of_run(context.run_id),
        runner=runner_of(repository, context.run_id),
    )
    found = find(results, here, earlier, origin, at=datetime.now(UTC))
    if not found.added:
        append_summary(env, summary_markdown(found, "There is nothing to propose."))
        say(note("occasions-none", results=len(results)))
        return
    pull = publish(repository, context, found, pull, origin)
    address = f"[Pull request {pull.number}]({pull.html_url}) proposes them."
    append_summary(env, summary_markdown(found, address))
    say(
        note(
            "occasions-proposed",
            number=pull.number,
            url=pull.html_url,
            added=found.added,
            results=len(results),
        )
    )


def _pull_request(repository: Repository) -> PullRequest | None:
    """The open pull request of perfgate's own branch; the oldest where there are several."""
    ours = name_of(repository)
    owner = repository.full_name.partition("/")[0]
    found = [
        pull
        for pull in repository.get_pulls(state="open", head=f"{owner}:{BRANCH}")
        if pull.head.ref == BRANCH and name_of(pull.head.repo) == ours
    ]
    return min(found, key=lambda pull: pull.number, default=None)


def find(
    results: Sequence[Result],
    here: Checkout,
    earlier: Mapping[str, Baseline],
    origin: Origin,
    *,
    at: datetime,
) -> ResultsOfGate:
    """Return what each result comes to: an occasion of its baseline, or why it is none.

    Args:
        results: what the gate has kept.
        here: the base branch, as it was measured.
        earlier: by path, baselines of the open pull request with occasions that were not merged
            yet.
        origin: the gate's run.
        at: now, aware.
    """
    new = dict(earlier)
    added: set[str] = set()
    left: list[tuple[Result, PerfgateError]] = []
    for (slug, workload), (result, *twins) in by_workload(results).items():
        try:
            if twins:
                raise twice_kept(result)
            old = here.store.baselines.load(slug, workload)
            path = "" if old is None else here.path_in_tree(old)
            new[path] = blessing.add_occasion(
                [result],
                new.get(path, old),
                reason=f"the scheduled gate of {at.astimezone(UTC):%Y-%m-%d}",
                by=origin.by,
                at=at,
                commit=here.commit,
                in_ci=True,
                allow_ci=True,
                run_url=origin.run_url,
                runner=origin.runner,
            )
            added.add(path)
        except (BlessRefused, BaselineUnreadable) as refused:
            left.append((result, refused))
    listed = _listed(here)
    planned = tuple(
        Planned(old=listed[path], new=one, path=path) for path, one in sorted(new.items())
    )
    return ResultsOfGate(planned=planned, added=len(added), left=tuple(left))


def _listed(here: Checkout) -> dict[str, Baseline]:
    """The baselines of the base branch that can be read, by path."""
    found = (listed.found for listed in here.store.baselines.listed())
    return {here.path_in_tree(one): one for one in found if isinstance(one, Baseline)}


def not_merged(repository: Repository, pull: PullRequest, here: Checkout) -> dict[str, Baseline]:
    """Return by path the baselines of an open pull request that are the base branch's with further
    occasions; what else its branch holds is not looked at."""
    there = api.files_of(repository, pull.head.sha)
    found: dict[str, Baseline] = {}
    for path, base in _listed(here).items():
        if path not in there:
            continue
        content = b64decode(repository.get_git_blob(there[path]).content)
        try:
            more = here.store.baselines.parse(content, Path(path))
        except BaselineUnreadable:
            continue
        if adds_only(base, more):
            found[path] = more
    return found


def adds_only(base: Baseline, more: Baseline) -> bool:
    """Whether a baseline is another one with further occasions, and lacks at most the oldest ones,
    which it has no room for."""
    new = [one for one in more.occasions if one not in base.occasions]
    old = [one for one in more.occasions if one in base.occasions]
    kept = base.occasions[len(base.occasions) - len(old) :]
    is_same = more.model_copy(update={"occasions": base.occasions}) == base
    is_added = bool(new) and all(one.added is not None for one in new)
    return is_same and is_added and bool(old) and tuple(old) == kept


def publish(
    repository: Repository,
    context: Context,
    found: ResultsOfGate,
    pull: PullRequest | None,
    origin: Origin,
) -> PullRequest:
    """Make the branch anew, and open its pull request or give it its new text; return it.

    Raises:
        BranchMoved: somebody else has moved the branch meanwhile.
        GitHubRefused: the token, or the repository's settings, do not allow it.
    """
    head = api.head_of(repository, BRANCH) if pull is None else pull.head.sha
    made = api.commit(
        repository,
        onto=context.sha,
        files={one.path: baseline_text(one.new) for one in found.planned},
        message=commit_message([one.new for one in found.planned], REASON, origin),
    )
    api.move_branch(repository, BRANCH, expected=head, to=made, force=True)
    title = f"perfgate: more occasions for {plural(len(found.planned), 'baseline')}"
    body = pull_request_markdown(found, origin.run_url)
    if pull is None:
        return repository.create_pull(context.branch, BRANCH, title=title, body=body)
    pull.edit(title=title, body=body)
    return pull


# What is shown of it


def pull_request_markdown(found: ResultsOfGate, run_url: str) -> str:
    """Return the pull request's text: what was added, and what was not and why."""
    what = (
        f"[The scheduled gate]({run_url}) has repeated what is blessed. Unchanged repeats are "
        "added to their baselines as occasions: the more of them, the smaller a slowdown the gate "
        "can see. Blessings, anchors and calibrations stay as they are."
    )
    mind = (
        f"perfgate makes the branch {name(BRANCH)} anew with each scheduled gate: what else is "
        "committed to it goes. GitHub starts no workflow for it by itself; close and open this "
        "pull request to let the gate run."
    )
    return shortened("\n".join([what, "", *_tables(found), "", mind]) + "\n")


def summary_markdown(found: ResultsOfGate, first: str) -> str:
    """Return the same for the job's summary, with a first sentence."""
    return shortened("\n".join(["### perfgate: occasions", "", first, "", *_tables(found), ""]))


def _tables(found: ResultsOfGate) -> list[str]:
    lines = baselines_table(found.planned) if found.planned else []
    if found.left:
        lines += ["", "Not added:", "", "| workload | machine | why |", "|---|---|---|"]
        lines += [
            f"| {name(result.workload.id)} | {name(result.machine.gpu_name)} | {prose(message(why))} |"
            for result, why in found.left
        ]
    return lines
