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
from perfgate.model.note import note
from perfgate.model.outcome import OnLoosened
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.files import temporary_folder
from perfgate.system.process import Listening, run_process
from perfgate.words.say import fact

COLLECTING_S: Final = 600.0
"""What the collection of a project's workloads may take."""
LONGEST_LOG: Final = 300
"""Characters of what the collection printed last."""
_DECLARED: Final = TypeAdapter(tuple[Declared, ...])

Expected = dict[str, dict[str, str | None]]
"""By machine, the workloads that have baselines, each with its file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What is checked out, and what it is for."""

    root: Path
    """The project's."""
    env: Mapping[str, str]
    """The environment of a gate: workloads are collected in it."""
    branch: str
    """Of the remote `origin`, whose newest state is fetched."""
    approved: bool
    """Whether a maintainer has approved what is checked out."""
    folder: Path
    """Where commits are checked out; it belongs to perfgate."""


def compare(change: Change) -> Base:
    """Say how the gate of what is checked out differs from a branch's, and which workloads that
    branch expects.

    What cannot be found out counts as a difference that loosens the gate.
    """
    root, env = change.root.resolve(), change.env
    on, expected = OnLoosened.FAIL, Expected()
    try:
        # A private repository's checkout has left no token behind: what it fetched must do then.
        with suppress(PerfgateError):
            git.fetch_branch(root, change.branch, env=env)
        tip = f"refs/remotes/origin/{change.branch}"
        on = _loosened_at(change, tip)
        commit = git.merge_base(root, tip, "HEAD", env=env)
        if commit == git.resolve(root, "HEAD", env=env):
            found: tuple[Difference, ...] = ()
            expected = _expected(Store(root, load_settings(root, {}).baselines))
        else:
            base, expected = _base_at(change, commit)
            within = git.prefix(root, env=env)
            top = root.parents[len(within.parts) - 1] if within.parts else root
            head = state_of(root, top, lambda: _declared(root, env, change.folder, ()))
            found = differences(base, head)
            if change.approved:  # what it takes away on purpose
                expected = {
                    slug: {
                        name: file
                        for name, file in of.items()
                        if f"baseline {name} on {slug}" in head
                    }
                    for slug, of in expected.items()
                }
    except PerfgateError as unknown:
        why = fact(note("change-unknown", reason=unknown.fact))
        found = (Difference(what="this change", new=why, direction=Direction.LOOSENS),)
        expected = {}
    approved = change.approved
    loosening = Loosening(base=change.branch, on=on, approved=approved, differences=found)
    return Base(loosening=loosening, expected=expected)


def _expected(store: Store) -> Expected:
    """What a project has baselines of."""
    found: Expected = {}
    for one in store.baselines.listed():
        found.setdefault(one.slug, {})[one.workload] = one.source
    return found


def _loosened_at(change: Change, revision: str) -> OnLoosened:
    """What the project's settings at a revision have a loosened gate do.

    Raises:
        ConfigInvalid: this perfgate does not accept them.
        RepositoryUnreadable: git does not answer.
    """
    file = git.prefix(change.root, env=change.env) / "pyproject.toml"
    content = git.read_at(change.root, revision, file.as_posix(), env=change.env)
    with temporary_folder("settings") as folder:
        (folder / "pyproject.toml").write_bytes(content or b"")
        return load_settings(folder, {}).loosened


def _base_at(change: Change, commit: str) -> tuple[State, Expected]:
    """How a commit decides about its gate, and what it has baselines of.

    Raises:
        PerfgateError: it cannot be checked out.
    """
    with worktree(change.root, commit, folder=change.folder, env=change.env) as tree:
        settings = _settings_in(tree.root)
        # A checkout that runs in the gate's own environment may need its setup to be imported.
        if settings.ab_setup and settings.ab_python is None:
            set_up(
                tree,
                settings.ab_setup,
                env=change.env,
                time_left_s=math.inf,
                listening=Listening(),
            )
        state = state_of(tree.root, tree.top, lambda: _declared_there(tree, change.env))
        return state, _expected(Store(tree.root, settings.baselines))


# What decides about a gate


def _settings_in(root: Path) -> Settings:
    """A project's settings; the defaults where they cannot be read."""
    with suppress(PerfgateError):
        return load_settings(root, {})
    return Settings()


def state_of(root: Path, top: Path, collect: Callable[[], Sequence[Declared]]) -> State:
    """How the project at `root`, in the repository at `top`, decides about its gate; of a part that
    cannot be read, why."""
    settings = _settings_in(root)
    parts: Mapping[str, Callable[[], State]] = {
        "settings": lambda: {"setting": loosened.setting_values(load_settings(root, {}))},
        "pytest": lambda: {"pytest": _pytest(root)},
        "code": lambda: {
            file.relative_to(top).as_posix(): loosened.code_of(file)
            for file in (*_conftests(root, settings.workloads), *_workflows(top))
        },
        "workloads": lambda: {
            f"workload {one.workload.id}": loosened.workload_values(one)
            for one in (collect() if (root / settings.workloads).is_dir() else ())
        },
        "baselines": lambda: _baselines(Store(root, settings.baselines)),
    }
    state: dict[str, Values | str] = {}
    for part, values in parts.items():
        try:
            state.update(values())
        except (PerfgateError, OSError, ValueError) as broken:
            why = broken.fact if isinstance(broken, PerfgateError) else str(broken)
            state[part] = loosened.Unreadable(why)
    return state


def _pytest(root: Path) -> Values:
    file = configuration_in(root)
    sets = {} if file is None else {"configuration file": file.name, **settings_of(file)}
    return loosened.pytest_values(sets)


def _baselines(store: Store) -> State:
    return {
        f"baseline {one.workload} on {one.slug}": loosened.baseline_values(one.found)
        if isinstance(one.found, Baseline)
        else f"cannot be read: {one.found.fact}"
        for one in store.baselines.listed()
    }


def _conftests(root: Path, workloads: str) -> Iterator[Path]:
    """Every conftest that a workload is collected with."""
    folder = root / workloads
    above = {one / "conftest.py" for one in (folder, *folder.parents) if one.is_relative_to(root)}
    return filter(Path.is_file, sorted(above | set(folder.rglob("conftest.py"))))


def _workflows(top: Path) -> Iterator[Path]:
    """The workflows and actions of the repository in which perfgate is named."""
    for kind in ("workflows", "actions"):
        for file in sorted((top / ".github" / kind).rglob("*")):
            within = file.relative_to(top)
            if file.is_file() and "perfgate" in f"{within}{file.read_bytes()!r}".casefold():
                yield file


def _declared_there(tree: Worktree, env: Mapping[str, str]) -> tuple[Declared, ...]:
    """What a checkout declares, collected with nothing of the project's own, which pytest and
    Python would find further up."""
    pin(tree)
    there = environment_there(env, tree)
    ini = tree.home / "worker" / "pytest.ini"
    with suppress(OSError, ValueError):
        ini = configuration_in(tree.root) or ini
    return _declared(tree.root, there, tree.home, ("-c", str(ini), f"--confcutdir={tree.root}"))


def _declared(
    root: Path, env: Mapping[str, str], folder: Path, options: Sequence[str]
) -> tuple[Declared, ...]:
    """What a project declares, collected with pytest's `options` in a process of its own, since
    that imports the project's code; `folder` takes its output.

    Raises:
        ConfigInvalid: it cannot be collected.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out, log = folder / "declared.json", folder / "declared.log"
    out.unlink(missing_ok=True)
    words = ("-P", "-m", "perfgate", "github", "declared", str(root), str(out), "--", *options)
    try:
        run_process((sys.executable, *words), cwd=root, env=env, log=log, timeout_s=COLLECTING_S)
        return _DECLARED.validate_json(out.read_bytes())
    except (OSError, ValidationError):
        printed = ""
        with suppress(OSError):
            printed = " ".join(log.read_text("utf-8").split())[-LONGEST_LOG:]
        raise ConfigInvalid("workloads-not-collected", log=printed) from None
