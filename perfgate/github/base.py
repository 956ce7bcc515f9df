"""The branch that a change is for, and the change: how each decides about the gate, next to each
other.

The base is the commit at which the change left its branch, checked out next to the project. What the
change may do to its gate, the branch says as it is now.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.execute.addopts import configuration_in, settings_of
from perfgate.execute.side_environment import environment_there, pin
from perfgate.execute.worktree import set_up, worktree
from perfgate.github import loosened
from perfgate.github.loosened import GateValues, differences
from perfgate.model.baseline import Baseline
from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.loosening import Base, Difference, Direction, Loosening
from perfgate.model.note import Note, note
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared, Workload
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.process import run_process
from perfgate.system.temporary import temporary_folder
from perfgate.words.say import fact

COLLECTING_S: Final = 600.0
"""What the collection of a project's workloads may take."""
LONGEST_LOG: Final = 300
"""Characters of what the collection printed last."""
_DECLARED: Final = TypeAdapter(tuple[Declared, ...])

Expected = Mapping[str, Mapping[str, str | None]]
"""By machine, the workloads that have a baseline there, each with the file that declared it."""
Wants = Callable[[str, str | None], bool]
"""Whether a gate is to measure a workload, by its id and file."""


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


def compare(change: Change, *, folder: Path, wants: Wants, say: Callable[[Note], None]) -> Base:
    """Say how the gate of what is checked out differs from a branch's, and which workloads that
    branch expects.

    What cannot be found out counts as a difference that loosens the gate.

    Args:
        change: what is compared with what.
        folder: where commits are checked out; it belongs to perfgate.
        wants: says which workloads the gate is to measure.
        say: takes notes for the job's log.
    """
    root, env = change.root, change.env
    try:
        git.fetch_branch(root, change.branch, env=env)
    except PerfgateError as refused:
        # A private repository, whose checkout has left no token behind: what was checked out must
        # do.
        say(note("branch-not-fetched", branch=change.branch, reason=refused.fact))
    tip = f"refs/remotes/origin/{change.branch}"
    loosening = Loosening(base=change.branch, approved=change.approved)
    try:
        on = settings_at(root, tip, env=env).loosened
        loosening = loosening.model_copy(update={"on": on})
        commit = git.merge_base(root, _known(change) or tip, "HEAD", env=env)
        if commit == git.resolve(root, "HEAD", env=env):
            expected = _expected(Store(root, load_settings(root, {}).baselines))
            return Base(loosening=loosening, expected=_wanted(expected, wants))
        base, expected = _gate_at(root, commit, folder=folder, env=env)
        inside = git.prefix(root, env=env)
        top = root.resolve().parents[len(inside.parts) - 1] if inside.parts else root
        head = gate_of(root, top, Collecting(env=env, folder=folder))
    except PerfgateError as unknown:
        why = fact(note("change-unknown", reason=unknown.fact))
        found = Difference(what="this change", new=why, direction=Direction.LOOSENS)
        return Base(loosening=loosening.model_copy(update={"differences": (found,)}))
    names = _wanted(expected, wants)
    if change.approved:  # what it takes away on purpose
        names = {
            slug: tuple(one for one in names[slug] if f"baseline {one} on {slug}" in head.things)
            for slug in names
        }
    loosening = loosening.model_copy(update={"differences": differences(base, head)})
    return Base(loosening=loosening, expected=names)


def _wanted(expected: Expected, wants: Wants) -> Mapping[str, tuple[str, ...]]:
    """What is expected of whoever gates only the workloads that it wants, by machine."""
    return {
        slug: tuple(name for name, source in sources.items() if wants(name, source))
        for slug, sources in expected.items()
    }


def _known(change: Change) -> str | None:
    """The commit that the change is on, if the clone has it."""
    with suppress(PerfgateError):
        return change.since and git.resolve(change.root, change.since, env=change.env)
    return None


def settings_at(root: Path, revision: str, *, env: Mapping[str, str]) -> Settings:
    """The project's settings at a revision; the defaults where it had none.

    Raises:
        ConfigInvalid: this perfgate does not accept them.
        RepositoryUnreadable: git does not answer.
    """
    inside = git.prefix(root, env=env)
    content = git.read_at(root, revision, (inside / "pyproject.toml").as_posix(), env=env)
    with temporary_folder("settings") as folder:
        if content is not None:
            (folder / "pyproject.toml").write_bytes(content)
        return load_settings(folder, {})


@dataclass(frozen=True, kw_only=True)
class Collecting:
    """How the workloads of a project are collected."""

    env: Mapping[str, str]
    folder: Path
    """For files of perfgate's own."""
    options: Sequence[str] = ()
    """pytest's."""


def _gate_at(
    root: Path, commit: str, *, folder: Path, env: Mapping[str, str]
) -> tuple[GateValues, Expected]:
    """How a commit decides about its gate, and what it has baselines of.

    Raises:
        PerfgateError: it cannot be checked out.
    """
    settings = Settings()
    with suppress(PerfgateError):
        settings = settings_at(root, commit, env=env)
    # A checkout that runs in the gate's own environment may need its setup to be imported.
    setup = settings.ab_setup if settings.ab_python is None else ()
    with worktree(root, commit, folder=folder, env=env) as tree:
        if setup:
            set_up(tree, setup, env=env, time_left_s=math.inf)
        pin(tree)
        imports = tree.home / "logs"
        imports.mkdir()
        there = environment_there(
            env,
            tree,
            workload=Workload(id="declarations", source="", steps=1, warmup=0),
            imports=imports,
            site_packages=[
                Path(entry) for entry in sys.path if PurePath(entry).name == "site-packages"
            ],
        )
        # Not the project's own configuration, which pytest would find further up.
        ini = tree.home / "worker" / "pytest.ini"
        with suppress(OSError, ValueError):
            ini = configuration_in(tree.root) or ini
        options = ("-c", str(ini), f"--confcutdir={tree.root}")
        collecting = Collecting(env=there, folder=tree.home, options=options)
        expected = _expected(Store(tree.root, settings.baselines))
        return gate_of(tree.root, tree.top, collecting), expected


def _expected(store: Store) -> Expected:
    found: dict[str, dict[str, str | None]] = {}
    for listed in store.baselines.listed():
        found.setdefault(listed.slug, {})[listed.workload] = listed.source
    return found


def gate_of(root: Path, top: Path, collecting: Collecting) -> GateValues:
    """How the project at `root`, in the repository at `top`, decides about its gate."""
    gate, settings = GateValues(), Settings()
    with _reading("settings", gate):
        settings = load_settings(root, {})
        gate.things["setting"] = loosened.setting_values(settings)
    with _reading("pytest", gate):
        file = configuration_in(root)
        sets = {} if file is None else {"configuration file": file.name, **settings_of(file)}
        gate.things["pytest"] = loosened.pytest_values(sets)
    for name, text in (*_conftests(root, settings.workloads), *_workflows(top)):
        gate.things[name] = loosened.code_values(name, text)
    with _reading("workloads", gate):
        if (root / settings.workloads).is_dir():
            for one in _declared(root, collecting):
                gate.things[f"workload {one.workload.id}"] = loosened.workload_values(one)
    with _reading("baselines", gate):
        for listed in Store(root, settings.baselines).baselines.listed():
            found = listed.found
            gate.things[f"baseline {listed.workload} on {listed.slug}"] = (
                loosened.baseline_values(found)
                if isinstance(found, Baseline)
                else loosened.UNREADABLE
            )
    return gate


@contextmanager
def _reading(part: str, gate: GateValues) -> Iterator[None]:
    """Note of a part that cannot be read why."""
    try:
        yield
    except PerfgateError as broken:
        gate.unread[part] = broken.fact
    except (OSError, ValueError) as broken:
        gate.unread[part] = str(broken)


def _declared(root: Path, collecting: Collecting) -> tuple[Declared, ...]:
    """What a project declares, collected in a process of its own: it imports the project's code.

    Raises:
        ConfigInvalid: it cannot be collected.
    """
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
