"""The scheduled gate's occasions: each unchanged repeat is added to its baseline, by one pull
request.

The pull request's branch is perfgate's own: each gate makes it anew on the base branch, with the
occasions that it held and were not merged yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfgate.bless import bless as blessing
from perfgate.github import api
from perfgate.github.approval import name_of
from perfgate.github.context import append_summary, variable
from perfgate.github.kept import Checkout, Planned, blessed_by, checkout, commit, kept_by
from perfgate.model.baseline import Baseline, Blessing, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BaselineUnreadable,
    BlessRefused,
    GitHubRefused,
    PerfgateError,
)
from perfgate.model.note import Note, note
from perfgate.render.markdown import filled
from perfgate.store import Store
from perfgate.words.numbers import plural

if TYPE_CHECKING:
    from github.PullRequest import PullRequest
    from github.Repository import Repository

EVENTS: Final = ("schedule", "workflow_dispatch")
"""By which a gate of the base branch is started."""
BRANCH: Final = "perfgate/occasions"
BY: Final = "perfgate, by its schedule"


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
        whole. GitHubRefused: the token, or the repository's settings, do not allow it.
    """
    kind, sha = variable(env, "GITHUB_EVENT_NAME"), variable(env, "GITHUB_SHA")
    if kind not in EVENTS:
        raise ActionsContextMissing("occasions-event-wanted", event=kind)
    repository = api.connect(env)
    here = checkout(root, sha, env=env)
    run = repository.get_workflow_run(int(variable(env, "GITHUB_RUN_ID")))
    kept, pull = kept_by(run, sha), _pull_request(repository)
    blessed = blessed_by(BY, run, f"the scheduled gate of {datetime.now(UTC):%Y-%m-%d}", sha)
    listed = (one.found for one in here.store.baselines.listed())
    old = {here.path_in_tree(one): one for one in listed if isinstance(one, Baseline)}
    new = old if pull is None else {path: _waiting(repository, path, old[path]) for path in old}
    found = find(kept, here, old, new, blessed)
    if found.added:
        made = commit(repository, found.planned, onto=sha, blessed=blessed)
        _set_branch(repository, made)
        title = f"perfgate: more occasions for {plural(len(found.planned), 'baseline')}"
        body = filled("proposal.md.j2", found=found, run_url=run.html_url, branch=BRANCH)
        if pull is None:
            base = variable(env, "GITHUB_REF").removeprefix("refs/heads/")
            pull = repository.create_pull(base, BRANCH, title=title, body=body)
        else:
            pull.edit(title=title, body=body)
        url = pull.html_url
        say(note("occasions-proposed", number=pull.number, url=url, added=found.added))
    else:
        say(note("occasions-none", results=len(kept)))
    append_summary(env, filled("occasions.md.j2", found=found, pull=pull))


def _pull_request(repository: Repository) -> PullRequest | None:
    """The open pull request of perfgate's own branch; the oldest where there are several."""
    owner = repository.full_name.partition("/")[0]
    found = [
        pull
        for pull in repository.get_pulls(state="open", head=f"{owner}:{BRANCH}")
        if pull.head.ref == BRANCH and name_of(pull.head.repo) == name_of(repository)
    ]
    return min(found, key=lambda pull: pull.number, default=None)


def _set_branch(repository: Repository, made: str) -> None:
    """Make perfgate's own branch, or let it be at another commit."""
    try:
        repository.create_git_ref(f"refs/heads/{BRANCH}", made)
    except GitHubRefused:
        ref = repository.get_git_ref(f"heads/{BRANCH}")
        ref.complete()  # else it is asked at the address for reading
        ref.edit(made, force=True)


def _waiting(repository: Repository, path: str, base: Baseline) -> Baseline:
    """A baseline with the occasions that the open pull request adds to it; what else its branch
    holds is not looked at."""
    # None of this file, or none that can be read.
    with suppress(GitHubRefused, BaselineUnreadable):
        file = repository.get_contents(path, ref=BRANCH)
        if not isinstance(file, list):
            store = Store(Path(), ".")
            return with_occasions(base, store.baselines.parse(file.decoded_content, Path(path)))
    return base


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
    kept: Iterable[Sequence[Result]],
    here: Checkout,
    old: Mapping[str, Baseline],
    waiting: Mapping[str, Baseline],
    blessed: Blessing,
) -> Additions:
    """Return what each result comes to: an occasion of its baseline, or why it is none.

    Args:
        kept: what the gate has kept, by workload and machine.
        here: the base branch, as it was measured.
        old: its baselines, by path.
        waiting: the same with the occasions that were not merged yet.
        blessed: who adds them.
    """
    new, added, left = dict(waiting), 0, []
    for newest, *_ in kept:
        try:
            base = here.store.baselines.load(newest.machine.slug, newest.workload.id)
            path = "" if base is None else here.path_in_tree(base)
            new[path] = blessing.add_occasion(newest, new.get(path), blessed)
            added += 1
        except (BlessRefused, BaselineUnreadable) as refused:
            left.append((newest, refused))
    planned = tuple(
        Planned(old=old[path], new=new[path], path=path) for path in old if new[path] != old[path]
    )
    return Additions(planned=planned, added=added, left=tuple(left))
