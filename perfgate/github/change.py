"""The branch that a change is for, and the change: how each decides about the gate, next to each
other.

The base is the commit at which the change left its branch, checked out next to the project. What
the change may do to its gate, the branch says as it is now.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.execute.addopts import configuration_in, settings_of
from perfgate.execute.side_environment import environment_there, pin
from perfgate.execute.worktree import Worktree, set_up, worktree
from perfgate.github import loosened
from perfgate.github.loosened import State, Values, differences
from perfgate.model.baseline import Baseline
from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.loosening import Base, Difference, Direction, Loosening
from perfgate.model.note import Note, note
from perfgate.model.outcome import OnLoosened
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.files import temporary_folder
from perfgate.system.process import run_process
from perfgate.words.say import fact

COLLECTING_S: Final = 600.0
"""What the collection of a project's workloads may take."""
LONGEST_LOG: Final = 300
"""Characters of what the collection printed last."""
_DECLARED: Final = TypeAdapter(tuple[Declared, ...])


@dataclass(frozen=True, kw_only=True)
class Change:
    """What is checked out, and what it is for."""

    root: Path
    """The project's."""
    env: Mapping[str, str]
    """The environment of a gate: workloads are collected in it."""
    branch: str
    """Of the remote `origin`, whose newest state is fetched."""
    since: str | None = None
    """The commit that the change is on, where it is not to be found from the branch: a merge queue
    puts one change on another. Of a clone that lacks it, the branch must do."""
    approved: bool
    """Whether a maintainer has approved what is checked out."""
    wants: Callable[[str, str | None], bool]
    """Whether a gate is to measure a workload, by its id and file."""
    folder: Path
    """Where commits are checked out; it belongs to perfgate."""

    def tip(self, say: Callable[[Note], None]) -> str:
        """The branch as it is now, for git; `say` takes a note where it could not be fetched."""
        try:
            git.fetch_branch(self.root, self.branch, env=self.env)
        except PerfgateError as refused:
            # A private repository, whose checkout has left no token behind: what was checked out
            # must do.
            say(note("branch-not-fetched", branch=self.branch, reason=refused.fact))
        return f"refs/remotes/origin/{self.branch}"

    def begins_at(self, tip: str) -> str:
        """The commit at which it left its branch."""
        on = tip
        if self.since is not None:
            with suppress(PerfgateError):
                on = git.resolve(self.root, self.since, env=self.env)
        return git.merge_base(self.root, on, "HEAD", env=self.env)

    def expected(self, store: Store) -> dict[str, tuple[str, ...]]:
        """By machine, what a project has baselines of, as far as the gate is to measure it."""
        found: dict[str, tuple[str, ...]] = {}
        for one in store.baselines.listed():
            if self.wants(one.workload, one.source):
                found[one.slug] = (*found.get(one.slug, ()), one.workload)
        return found


def compare(change: Change, say: Callable[[Note], None]) -> Base:
    """Say how the gate of what is checked out differs from a branch's, and which workloads that
    branch expects.

    What cannot be found out counts as a difference that loosens the gate. `say` takes notes for the
    job's log.
    """
    root, env = change.root, change.env
    loosening = Loosening(base=change.branch, approved=change.approved)
    try:
        tip = change.tip(say)
        on = _loosened_at(change, tip)
        loosening = loosening.model_copy(update={"on": on})
        commit = change.begins_at(tip)
        if commit == git.resolve(root, "HEAD", env=env):
            expected = change.expected(Store(root, load_settings(root, {}).baselines))
            return Base(loosening=loosening, expected=expected)
        base, expected = _base_at(change, commit)
        inside = git.prefix(root, env=env)
        top = root.resolve().parents[len(inside.parts) - 1] if inside.parts else root
        head = state_of(root, top, Collecting(env=env, folder=change.folder))
    except PerfgateError as unknown:
        why = fact(note("change-unknown", reason=unknown.fact))
        found = Difference(what="this change", new=why, direction=Direction.LOOSENS)
        return Base(loosening=loosening.model_copy(update={"differences": (found,)}))
    if change.approved:  # what it takes away on purpose
        expected = {
            slug: tuple(one for one in names if f"baseline {one} on {slug}" in head)
            for slug, names in expected.items()
        }
    loosening = loosening.model_copy(update={"differences": differences(base, head)})
    return Base(loosening=loosening, expected=expected)


def _loosened_at(change: Change, revision: str) -> OnLoosened:
    """What the project's settings at a revision have a loosened gate do.

    Raises:
        ConfigInvalid: this perfgate does not accept them.
        RepositoryUnreadable: git does not answer.
    """
    file = git.prefix(change.root, env=change.env) / "pyproject.toml"
    content = git.read_at(change.root, revision, file.as_posix(), env=change.env)
    with temporary_folder("settings") as folder:
        if content is not None:
            (folder / "pyproject.toml").write_bytes(content)
        return load_settings(folder, {}).loosened


def _base_at(change: Change, commit: str) -> tuple[State, dict[str, tuple[str, ...]]]:
    """How a commit decides about its gate, and what it has baselines of.

    Raises:
        PerfgateError: it cannot be checked out.
    """
    with worktree(change.root, commit, folder=change.folder, env=change.env) as tree:
        settings = _settings_in(tree.root)
        # A checkout that runs in the gate's own environment may need its setup to be imported.
        if settings.ab_setup and settings.ab_python is None:
            set_up(tree, settings.ab_setup, env=change.env, time_left_s=math.inf)
        state = state_of(tree.root, tree.top, _collecting_there(tree, change.env))
        return state, change.expected(Store(tree.root, settings.baselines))


# What decides about a gate


@dataclass(frozen=True, kw_only=True)
class Collecting:
    """How the workloads of a project are collected."""

    env: Mapping[str, str]
    folder: Path
    """For files of perfgate's own."""
    options: Sequence[str] = ()
    """pytest's."""


def _collecting_there(tree: Worktree, env: Mapping[str, str]) -> Collecting:
    """How they are in a checkout: with nothing of the project's own, which pytest and Python would
    find further up."""
    pin(tree)
    there = environment_there(env, tree)
    ini = tree.home / "worker" / "pytest.ini"
    with suppress(OSError, ValueError):
        ini = configuration_in(tree.root) or ini
    options = ("-c", str(ini), f"--confcutdir={tree.root}")
    return Collecting(env=there, folder=tree.home, options=options)


def _settings_in(root: Path) -> Settings:
    """A project's settings; the defaults where they cannot be read."""
    with suppress(PerfgateError):
        return load_settings(root, {})
    return Settings()


def state_of(root: Path, top: Path, collecting: Collecting) -> State:
    """How the project at `root`, in the repository at `top`, decides about its gate; of a part that
    cannot be read, why."""
    settings = _settings_in(root)
    parts: Mapping[str, Callable[[], Mapping[str, Values]]] = {
        "settings": lambda: {"setting": loosened.setting_values(load_settings(root, {}))},
        "pytest": lambda: {"pytest": _pytest(root)},
        "code": lambda: {
            name: loosened.code_values(name, text)
            for name, text in (*_conftests(root, settings.workloads), *_workflows(top))
        },
        "workloads": lambda: {
            f"workload {one.workload.id}": loosened.workload_values(one)
            for one in _declared(root, settings.workloads, collecting)
        },
        "baselines": lambda: _baselines(Store(root, settings.baselines)),
    }
    state: dict[str, Values] = {}
    for part, values in parts.items():
        try:
            state.update(values())
        except (PerfgateError, OSError, ValueError) as broken:
            why = broken.fact if isinstance(broken, PerfgateError) else str(broken)
            state[part] = {loosened.UNREADABLE: why}
    return state


def _pytest(root: Path) -> Values:
    file = configuration_in(root)
    sets = {} if file is None else {"configuration file": file.name, **settings_of(file)}
    return loosened.pytest_values(sets)


def _baselines(store: Store) -> dict[str, Values]:
    return {
        f"baseline {one.workload} on {one.slug}": loosened.baseline_values(one.found)
        if isinstance(one.found, Baseline)
        else {loosened.CODE: f"cannot be read: {one.found.fact}"}
        for one in store.baselines.listed()
    }


def _declared(root: Path, workloads: str, collecting: Collecting) -> tuple[Declared, ...]:
    """What a project declares, collected in a process of its own: it imports the project's code.

    Raises:
        ConfigInvalid: it cannot be collected.
    """
    if not (root / workloads).is_dir():
        return ()
    collecting.folder.mkdir(parents=True, exist_ok=True)
    out, log = collecting.folder / "declared.json", collecting.folder / "declared.log"
    out.unlink(missing_ok=True)
    words = ("-P", "-m", "perfgate", "github", "declared", str(root), str(out), "--")
    try:
        run_process(
            (sys.executable, *words, *collecting.options),
            cwd=root,
            env=collecting.env,
            log=log,
            timeout_s=COLLECTING_S,
        )
        return _DECLARED.validate_json(out.read_bytes())
    except (OSError, ValidationError):
        printed = ""
        with suppress(OSError):
            printed = " ".join(log.read_text("utf-8").split())[-LONGEST_LOG:]
        raise ConfigInvalid("workloads-not-collected", log=printed) from None


def _conftests(root: Path, workloads: str) -> Iterator[tuple[str, str]]:
    """Every conftest that a workload is collected with."""
    folder = root / workloads
    above = {one / "conftest.py" for one in (folder, *folder.parents) if one.is_relative_to(root)}
    for file in sorted(above | set(folder.rglob("conftest.py"))):
        if file.is_file():
            yield file.relative_to(root).as_posix(), file.read_text("utf-8", errors="replace")


def _workflows(top: Path) -> Iterator[tuple[str, str]]:
    """The workflows and actions of the repository in which perfgate is named."""
    for kind in ("workflows", "actions"):
        for file in sorted((top / ".github" / kind).rglob("*")):
            with suppress(OSError):
                text = file.read_text("utf-8", errors="replace")
                if "perfgate" in text.casefold() or "perfgate" in file.as_posix().casefold():
                    yield file.relative_to(top).as_posix(), text
