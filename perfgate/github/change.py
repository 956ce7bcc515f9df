"""The branch that a change is for, and the change: how each decides about the gate, next to each
other.

The base is the commit at which the change left its branch, checked out next to the project. What
the change may do to its gate, the branch says as it is now.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.execute.addopts import configuration_in, settings_of
from perfgate.execute.side_environment import environment_there, pin
from perfgate.execute.worktree import Worktree, set_up, worktree
from perfgate.github import loosened
from perfgate.github.loosened import State, differences
from perfgate.model.baseline import Baseline
from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.loosening import Base, Difference, Direction, Loosening
from perfgate.model.note import note
from perfgate.model.outcome import OnLoosened
from perfgate.model.pyproject import load_settings
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

Expected = Mapping[str, Mapping[str, str | None]]
"""By machine, the workloads that have baselines, each with its file."""


def compare(
    root: Path, env: Mapping[str, str], *, branch: str, approved: bool, folder: Path
) -> Base:
    """Say how the gate of what is checked out differs from a branch's, and which workloads that
    branch expects.

    What cannot be found out counts as a difference that loosens the gate.

    Args:
        root: the project's.
        env: the environment of a gate: workloads are collected in it.
        branch: of the remote `origin`, whose newest state is fetched.
        approved: whether a maintainer has approved what is checked out.
        folder: where commits are checked out; it belongs to perfgate.
    """
    root = root.resolve()
    on = OnLoosened.FAIL
    expected: Expected = {}
    found: tuple[Difference, ...] = ()
    try:
        # A private repository's checkout has left no token behind: what it fetched must do then.
        with suppress(PerfgateError):
            git.fetch_branch(root, branch, env=env)
        tip = f"refs/remotes/origin/{branch}"
        on = _loosened_at(root, tip, env)
        commit = git.merge_base(root, tip, "HEAD", env=env)
        expected = here = _expected(root)
        if commit != git.resolve(root, "HEAD", env=env):
            with worktree(root, commit, folder=folder, env=env) as tree:
                expected = _expected(tree.root)
                if approved:  # what it takes away, it takes away on purpose
                    expected = {
                        slug: {
                            name: file for name, file in of.items() if name in here.get(slug, {})
                        }
                        for slug, of in expected.items()
                    }
                base = _state_in(tree, env)
            within = git.prefix(root, env=env)
            top = root.parents[len(within.parts) - 1] if within.parts else root
            found = differences(base, _state(root, top, env, folder))
    except (PerfgateError, OSError, ValueError) as unknown:
        why = unknown.fact if isinstance(unknown, PerfgateError) else str(unknown)
        why = fact(note("change-unknown", reason=why))
        found = (Difference(what="this change", new=why, direction=Direction.LOOSENS),)
    loosening = Loosening(base=branch, on=on, approved=approved, differences=found)
    return Base(loosening=loosening, expected=expected)


def _expected(root: Path) -> Expected:
    """What a project has baselines of."""
    found: dict[str, dict[str, str | None]] = {}
    for one in _store(root).baselines.listed():
        found.setdefault(one.slug, {})[one.workload] = one.source
    return found


def _store(root: Path) -> Store:
    return Store(root, load_settings(root, {}).baselines)


def _loosened_at(root: Path, revision: str, env: Mapping[str, str]) -> OnLoosened:
    """What the project's settings at a revision have a loosened gate do.

    Raises:
        ConfigInvalid: this perfgate does not accept them.
        RepositoryUnreadable: git does not answer.
    """
    file = git.prefix(root, env=env) / "pyproject.toml"
    content = git.read_at(root, revision, file.as_posix(), env=env)
    with temporary_folder("settings") as folder:
        (folder / "pyproject.toml").write_bytes(content or b"")
        return load_settings(folder, {}).loosened


# What decides about a gate


def _state_in(tree: Worktree, env: Mapping[str, str]) -> State:
    """How a checkout decides about its gate; its workloads are collected with nothing of the
    project's own, which pytest and Python would find further up.

    Raises:
        PerfgateError, OSError, ValueError: a part of it cannot be read.
    """
    settings = load_settings(tree.root, {})
    # A checkout that runs in the gate's own environment may need its setup to be imported.
    if settings.ab_setup and settings.ab_python is None:
        set_up(tree, settings.ab_setup, env=env, time_left_s=math.inf, listening=Listening())
    pin(tree)
    ini = configuration_in(tree.root) or tree.home / "worker" / "pytest.ini"
    options = ("-c", str(ini), f"--confcutdir={tree.root}")
    return _state(tree.root, tree.top, environment_there(env, tree), tree.home, options)


def _state(
    root: Path, top: Path, env: Mapping[str, str], folder: Path, options: Sequence[str] = ()
) -> State:
    """How the project at `root`, in the repository at `top`, decides about its gate."""
    settings = load_settings(root, {})
    file = configuration_in(root)
    sets = {} if file is None else {"configuration file": file.name, **settings_of(file)}
    has_workloads = (root / settings.workloads).is_dir()
    declared = _declared(root, env, folder, options) if has_workloads else ()
    code = (*_conftests(root, settings.workloads), *_workflows(top))
    return {
        "setting": loosened.setting_values(settings),
        "pytest": loosened.pytest_values(sets),
        **{file.relative_to(top).as_posix(): loosened.code_of(file) for file in code},
        **{f"workload {one.workload.id}": loosened.workload_values(one) for one in declared},
        **{
            f"baseline {one.workload} on {one.slug}": loosened.baseline_values(one.found)
            if isinstance(one.found, Baseline)
            else f"cannot be read: {one.found.fact}"
            for one in _store(root).baselines.listed()
        },
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
