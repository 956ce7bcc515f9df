"""The branch that a change is for, and the change: how each decides about the gate, read side by side.

The base is the commit at which the change left its branch, checked out beside the project. What the change may do to
its gate, the branch says as it is now.
"""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.execute.addopts import configuration_in, settings_of
from perfgate.execute.side_environment import environment_there, pin
from perfgate.execute.worktree import worktree
from perfgate.github.loosened import Gate, differences
from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineUnreadable, ConfigInvalid, PerfgateError
from perfgate.model.loosening import Base, Difference, Direction, Loosening
from perfgate.model.pyproject import load_settings
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared, Workload
from perfgate.render.page import inert_line, uncommanding
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.process import run_process

COLLECTING_S: Final = 600.0
"""What the collection of a project's workloads may take."""
LONGEST_SAID: Final = 300
"""Characters of what the collection said last."""
Expected = Mapping[str, Mapping[str, str | None]]
"""By machine, the workloads that have a baseline there, each with the file that declared it."""
_DECLARED: Final = TypeAdapter(tuple[Declared, ...])


def compare(
    root: Path,
    branch: str,
    *,
    folder: Path,
    env: Mapping[str, str],
    since: str | None = None,
    approved: bool,
    wants: Callable[[str, str | None], bool],
    say: Callable[[str], None],
) -> Base:
    """Say how the gate of what is checked out differs from a branch's, and which workloads that branch expects.

    What cannot be found out counts as a difference that loosens the gate.

    Args:
        root: the project's.
        branch: of the remote `origin`, whose newest state is fetched.
        folder: where commits are checked out; it belongs to perfgate.
        env: the environment of a gate: workloads are collected in it.
        since: the commit that the change is on, where it is not to be found from the branch: a merge queue puts one
            change on another. Of a clone that lacks it, the branch must do.
        approved: whether a maintainer has approved what is checked out.
        wants: whether the gate is to measure a workload, by its id and file.
        say: takes lines for the job's log.
    """
    try:
        git.fetch_branch(root, branch, env=env)
    except PerfgateError as refused:
        # A private repository, whose checkout has left no token behind: what was checked out must do.
        fact = uncommanding(inert_line(refused.fact))  # what the remote says is in it
        say(f"{branch} was not fetched ({fact}); with fetch-depth: 0 the checkout brings it.")
    tip = f"refs/remotes/origin/{branch}"
    told = Loosening(base=branch, approved=approved)
    try:
        told = told.model_copy(update={"on": settings_at(root, tip, env=env).loosened})
        commit = git.merge_base(root, _known(root, since, env=env) or tip, "HEAD", env=env)
        if commit == git.resolve(root, "HEAD", env=env):
            expected = _expected(Store(root, load_settings(root, {}).baselines))
            return Base(loosening=told, expected=_named(expected, wants))
        base, expected = _gate_at(root, commit, folder=folder, env=env)
        inside = git.prefix(root, env=env)
        top = root.resolve().parents[len(inside.parts) - 1] if inside.parts else root
        head = _gate_of(root, top, env=env, folder=folder)
    except PerfgateError as unknown:
        why = f"what it changes of its gate is not known: {unknown.fact}"
        found = Difference(what="this change", new=why, direction=Direction.LOOSENS)
        return Base(loosening=told.model_copy(update={"differences": (found,)}))
    told = told.model_copy(update={"differences": differences(base, head)})
    named = _named(expected, wants)
    if approved:  # what it takes away on purpose
        named = {
            slug: tuple(one for one in names if (slug, one) in head.baselines)
            for slug, names in named.items()
        }
    return Base(loosening=told, expected=named)


def _named(
    expected: Expected, wants: Callable[[str, str | None], bool]
) -> Mapping[str, tuple[str, ...]]:
    """What is expected of whoever gates only the workloads that it wants, by machine."""
    return {
        slug: tuple(name for name, source in sources.items() if wants(name, source))
        for slug, sources in expected.items()
    }


def _known(root: Path, commit: str | None, *, env: Mapping[str, str]) -> str | None:
    """The commit, if the clone has it."""
    if commit is None:
        return None
    try:
        return git.resolve(root, commit, env=env)
    except PerfgateError:
        return None


def settings_at(root: Path, revision: str, *, env: Mapping[str, str]) -> Settings:
    """The project's settings at a revision; the defaults where it had none.

    Raises:
        ConfigInvalid: this perfgate does not accept them.
        RepositoryUnreadable: git does not answer.
    """
    inside = git.prefix(root, env=env)
    content = git.read_at(root, revision, (inside / "pyproject.toml").as_posix(), env=env)
    with tempfile.TemporaryDirectory() as folder:
        if content is not None:
            (Path(folder) / "pyproject.toml").write_bytes(content)
        return load_settings(Path(folder), {})


def _gate_at(
    root: Path, commit: str, *, folder: Path, env: Mapping[str, str]
) -> tuple[Gate, Expected]:
    """How a commit decides about its gate, and what it has baselines of.

    Raises:
        PerfgateError: it cannot be checked out.
    """
    try:
        settings = settings_at(root, commit, env=env)
    except PerfgateError:
        settings = Settings()
    # A checkout that runs in the gate's own environment may need its setup to be imported.
    setup = settings.duet_setup if settings.duet_python is None else ()
    with worktree(root, commit, folder=folder, env=env, run=run_process, setup=setup) as tree:
        pin(tree)
        witnesses = tree.home / "witnesses"
        witnesses.mkdir()
        there = environment_there(
            env,
            tree,
            workload=Workload(id="declarations", source="", steps=1, warmup=0),
            witnesses=witnesses,
            site_packages=[
                Path(entry) for entry in sys.path if PurePath(entry).name == "site-packages"
            ],
        )
        # Not the project's own configuration, which pytest would find further up.
        ini = _configuration(tree.root) or tree.home / "worker" / "pytest.ini"
        options = ("-c", str(ini), f"--confcutdir={tree.root}")
        base = _gate_of(tree.root, tree.top, env=there, folder=tree.home, options=options)
        return base, _expected(Store(tree.root, (base.settings or settings).baselines))


def _expected(store: Store) -> Expected:
    found: dict[str, dict[str, str | None]] = {}
    for listed in store.baselines.listed():
        found.setdefault(listed.slug, {})[listed.workload] = listed.source
    return found


def _gate_of(
    root: Path, top: Path, *, env: Mapping[str, str], folder: Path, options: Sequence[str] = ()
) -> Gate:
    """How the project at a root, in the repository at its top, decides about its gate."""
    faults: list[str] = []
    settings: Settings | None = None
    try:
        settings = load_settings(root, {})
    except PerfgateError as broken:
        faults.append(f"{broken.subject}: {broken.fact}")
    pytests: Mapping[str, object] | None = None
    with suppress(OSError, ValueError):
        file = configuration_in(root)
        pytests = {} if file is None else {"configuration file": file.name, **settings_of(file)}
    used = settings or Settings()
    workloads: Mapping[str, Declared] | None = {}
    if (root / used.workloads).is_dir():
        try:
            workloads = {
                one.workload.id: one
                for one in _declared(root, env=env, folder=folder, options=options)
            }
        except PerfgateError as broken:
            workloads = None
            faults.append(broken.fact)
    return Gate(
        settings=settings,
        pytest=pytests,
        files={**dict(_conftests(root, used.workloads)), **dict(_workflows(top))},
        workloads=workloads,
        baselines=_baselines(Store(root, used.baselines)),
        fault="; ".join(faults),
    )


def _configuration(root: Path) -> Path | None:
    try:
        return configuration_in(root)
    except (OSError, ValueError):
        return None


def _declared(
    root: Path, *, env: Mapping[str, str], folder: Path, options: Sequence[str] = ()
) -> tuple[Declared, ...]:
    """What a project declares, collected in a process of its own: it imports the project's code.

    Raises:
        ConfigInvalid: it cannot be collected.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out, log = folder / "declared.json", folder / "declared.log"
    out.unlink(missing_ok=True)
    words = (
        sys.executable,
        "-P",
        "-m",
        "perfgate",
        "github",
        "declared",
        str(root),
        str(out),
        "--",
        *options,
    )
    try:
        run_process(words, cwd=root, env=env, log=log, timeout_s=COLLECTING_S)
        return _DECLARED.validate_json(out.read_bytes())
    except (OSError, ValidationError):
        said = ""
        with suppress(OSError):
            said = " ".join(log.read_text("utf-8").split())[-LONGEST_SAID:]
        raise ConfigInvalid(
            subject="workloads",
            fact=f"its workloads cannot be collected{': ' if said else ''}{said}",
            next_step="See what pytest says: pytest --perfgate --collect-only",
        ) from None


def _baselines(store: Store) -> Mapping[tuple[str, str], Baseline | None]:
    try:
        listed = store.baselines.listed()
    except BaselineUnreadable:
        return {("all", "all"): None}
    return {
        (one.slug, one.workload): one.found if isinstance(one.found, Baseline) else None
        for one in listed
    }


def _conftests(root: Path, workloads: str) -> Iterator[tuple[str, str]]:
    """The hooks in every conftest that a workload is collected with, each by its name, and the rest of the file."""
    folder = root / workloads
    folders = [one for one in (folder, *folder.parents) if one.is_relative_to(root)]
    files = {one / "conftest.py" for one in folders} | set(
        folder.rglob("conftest.py") if folder.is_dir() else ()
    )
    for file in sorted(one for one in files if one.is_file()):
        name = file.relative_to(root).as_posix()
        try:
            statements = ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError, RecursionError):
            yield name, file.read_text("utf-8", errors="replace") if file.is_file() else ""
            continue
        rest = []
        for statement in statements:
            # As the parser has it: comments and form decide nothing.
            text = ast.unparse(statement)
            if isinstance(statement, ast.FunctionDef) and statement.name.startswith("pytest_"):
                yield f"{name} {statement.name}", text
            else:
                rest.append(text)
        yield name, "\n".join(rest)


def _workflows(top: Path) -> Iterator[tuple[str, str]]:
    """The workflows and actions of the repository in which perfgate is named."""
    for kind in ("workflows", "actions"):
        for folder, _, names in os.walk(top / ".github" / kind):
            for file in (Path(folder) / name for name in sorted(names)):
                with suppress(OSError):
                    text = file.read_text("utf-8", errors="replace")
                    if "perfgate" in text.casefold() or "perfgate" in file.as_posix().casefold():
                        yield file.relative_to(top).as_posix(), text
