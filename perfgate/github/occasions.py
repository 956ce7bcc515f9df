"""The scheduled gate's occasions: each unchanged repeat is added to its baseline, by one pull
request.

The pull request's branch is perfgate's own: each gate makes it anew on the base branch, with the
occasions that it held and were not merged yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from github.PullRequest import PullRequest
from github.Repository import Repository

from perfgate.bless import bless as blessing
from perfgate.github import api
from perfgate.github.approval import name_of
from perfgate.github.commit import Origin, Planned, commit
from perfgate.github.context import Context, append_summary
from perfgate.github.kept import Checkout, by_workload, checkout, kept_by_run, only, runner_of
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BaselineUnreadable,
    BlessRefused,
    PerfgateError,
)
from perfgate.model.note import Note, note
from perfgate.model.pyproject import load_settings
from perfgate.render.markdown import filled, shortened
from perfgate.words.numbers import plural

EVENTS: Final = ("schedule", "workflow_dispatch")
"""By which a gate of the base branch is started."""
BRANCH: Final = "perfgate/occasions"
BY: Final = "perfgate, by its schedule"
REASON: Final = "one more occasion each, measured by the scheduled gate of unchanged code"


@dataclass(frozen=True, kw_only=True, slots=True)
class Additions:
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
    run_url = context.page_of_run(context.run_id)
    origin = Origin(by=BY, run_url=run_url, runner=runner_of(run))
    found = find(results, here, _waiting(repository, pull, here), origin)
    if not found.added:
        append_summary(env, filled("occasions.md.j2", found=found, pull=None))
        say(note("occasions-none", results=len(results)))
        return
    pull = publish(repository, context, found, pull, origin)
    append_summary(env, filled("occasions.md.j2", found=found, pull=pull))
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
    owner = repository.full_name.partition("/")[0]
    found = [
        pull
        for pull in repository.get_pulls(state="open", head=f"{owner}:{BRANCH}")
        if pull.head.ref == BRANCH and name_of(pull.head.repo) == name_of(repository)
    ]
    return min(found, key=lambda pull: pull.number, default=None)


def _waiting(
    repository: Repository, pull: PullRequest | None, here: Checkout
) -> dict[str, Baseline]:
    """The baselines of the base branch, by path, with the occasions that an open pull request adds
    to them; what else its branch holds is not looked at."""
    found = _listed(here)
    if pull is None:
        return found
    for path, base in found.items():
        content = api.content_of(repository, path, pull.head.sha)
        with suppress(BaselineUnreadable):
            proposed = here.store.baselines.parse(content or b"", Path(path))
            found[path] = with_occasions(base, proposed)
    return found


def _listed(here: Checkout) -> dict[str, Baseline]:
    """The baselines of the base branch that can be read, by path."""
    listed = (one.found for one in here.store.baselines.listed())
    return {here.path_in_tree(one): one for one in listed if isinstance(one, Baseline)}


def with_occasions(base: Baseline, proposed: Baseline) -> Baseline:
    """Return a baseline with the occasions that another one adds to it; as it is where that is
    anything else as well."""
    if proposed.model_copy(update={"occasions": base.occasions}) != base:
        return base
    is_new = (one for one in proposed.occasions if one.added and one not in base.occasions)
    every = sorted((*base.occasions, *is_new), key=lambda one: one.measured_at)
    while sum(len(one.runs) for one in every) > blessing.MOST_RUNS:
        every = every[1:]
    return base.model_copy(update={"occasions": tuple(every)})


def find(
    results: Iterable[Result], here: Checkout, waiting: Mapping[str, Baseline], origin: Origin
) -> Additions:
    """Return what each result comes to: an occasion of its baseline, or why it is none.

    Args:
        results: what the gate has kept.
        here: the base branch, as it was measured.
        waiting: its baselines by path, with the occasions that were not merged yet.
        origin: the gate's run.
    """
    new = dict(waiting)
    added: set[str] = set()
    left: list[tuple[Result, PerfgateError]] = []
    at = datetime.now(UTC)
    for group in by_workload(results):
        try:
            result = only(group)
            old = here.store.baselines.load(result.machine.slug, result.workload.id)
            path = "" if old is None else here.path_in_tree(old)
            new[path] = blessing.add_occasion(
                result,
                new.get(path),
                origin.blessing(f"the scheduled gate of {at:%Y-%m-%d}", here.commit),
            )
            added.add(path)
        except (BlessRefused, BaselineUnreadable) as refused:
            left.append((group[0], refused))
    planned = tuple(
        Planned(old=old, new=new[path], path=path)
        for path, old in _listed(here).items()
        if new[path] != old
    )
    return Additions(planned=planned, added=len(added), left=tuple(left))


def publish(
    repository: Repository,
    context: Context,
    found: Additions,
    pull: PullRequest | None,
    origin: Origin,
) -> PullRequest:
    """Make the branch anew, and open its pull request or give it its new text; return it.

    Raises:
        BranchMoved: somebody else has moved the branch meanwhile.
        GitHubRefused: the token, or the repository's settings, do not allow it.
    """
    head = api.head_of(repository, BRANCH) if pull is None else pull.head.sha
    made = commit(repository, found.planned, onto=context.sha, reason=REASON, origin=origin)
    api.move_branch(repository, BRANCH, expected=head, to=made, force=True)
    title = f"perfgate: more occasions for {plural(len(found.planned), 'baseline')}"
    body = shortened(filled("proposal.md.j2", found=found, run_url=origin.run_url, branch=BRANCH))
    if pull is None:
        return repository.create_pull(context.branch, BRANCH, title=title, body=body)
    pull.edit(title=title, body=body)
    return pull
