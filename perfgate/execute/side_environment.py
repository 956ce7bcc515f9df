"""How a run of the project becomes the same run in a checkout: its words, options and variables;
runs none of it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from perfgate import __version__
from perfgate.execute.places import INSTALLED, PACKAGE
from perfgate.execute.worktree import Worktree, writing
from perfgate.model.errors import ConfigInvalid, RevisionMissing, WorktreeFailed
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.model.workload_file import read_workload_file

TORCH_EXTENSIONS: Final = "TORCH_EXTENSIONS_DIR"
"""Where torch builds what `torch.utils.cpp_extension.load` is given, by a name of the caller's: of
two commits at once, either would load what the other has built last. A checkout's goes with it: a
gate builds it once for that side."""
_ABSOLUTE: Final = re.compile(r"(?:^|(?<==))/.*", re.DOTALL)
"""The path in a word of a command, or behind an option's `=`."""


def pin(tree: Worktree) -> None:
    """Put next to the checkout what comes first on the path of its workers.

    ```
    <home>/worker/perfgate -> ...       the running perfgate: the checkout, or its environment, may
                  perfgate-*.dist-info  hold another; so that pytest finds the plugin
                  pytest.ini            empty, for a commit without one: pytest would take another
    ```

    Raises:
        WorktreeFailed: the disk did not take it.
    """
    worker = tree.home / "worker"
    info = worker / f"perfgate-{__version__}.dist-info"
    about = f"Metadata-Version: 2.1\nName: perfgate\nVersion: {__version__}\n"
    with writing(tree.commit, tree.home):
        info.mkdir(parents=True)
        (worker / PACKAGE.name).symlink_to(PACKAGE)
        (info / "METADATA").write_text(about, "utf-8")
        (info / "entry_points.txt").write_text("[pytest11]\nperfgate = perfgate.plugin\n", "utf-8")
        (worker / "pytest.ini").write_text("[pytest]\n", "utf-8")


def interpreter(tree: Worktree, python: str) -> Path:
    """Return the checkout's own interpreter, `python` relative to its root.

    Raises:
        WorktreeFailed: there is none.
    """
    path = tree.root / python
    if path.is_file() and os.access(path, os.X_OK):
        return path
    raise WorktreeFailed("interpreter-missing-there", commit=tree.shown, program=python)


def declared_there(workload: Workload, tree: Worktree, settings: Settings) -> Workload:
    """A command with the words, folder and variables that the commit's own file gives it; a
    function as it is.

    What is run is of there, how it is measured of the project. Of a decorated workload perfgate
    orders both sides how many steps to take; a script takes as many as its own words say, so there
    the two files must agree.

    Raises:
        RevisionMissing: the commit does not have the workload's file.
        WorktreeFailed: the file cannot be read, or has it measured otherwise.
    """
    if workload.command is None:
        if not (tree.root / workload.source).is_file():
            raise missing_there(workload, tree, workload.source)
        return workload
    named = Path(workload.source)
    file = tree.counterpart(named) if named.is_absolute() else tree.root / named
    if file is None:  # no commit holds it
        return workload
    if not file.is_file():
        raise missing_there(workload, tree, workload.source)
    try:
        there = read_workload_file(file, root=tree.root, settings=settings)
    except ConfigInvalid as invalid:
        raise WorktreeFailed(
            "workload-file-unreadable-there",
            workload=workload.id,
            commit=tree.shown,
            failure=invalid,
        ) from invalid
    then, now = there.comparable_parameters(), workload.comparable_parameters()
    for name in ("step", "steps", "warmup", "capture"):
        if then[name] != now[name]:
            raise WorktreeFailed(
                "measured-otherwise-there",
                workload=workload.id,
                commit=tree.shown,
                setting=name,
                then=then[name],
                now=now[name],
            )
    update = {name: getattr(there, name) for name in ("command", "cwd", "env", "pass_env")}
    return workload.model_copy(update=update)


def missing_there(workload: Workload, tree: Worktree, lacks: str) -> RevisionMissing:
    """A workload that is younger than the commit, which lacks a file or a name."""
    return RevisionMissing("workload-younger", workload=workload.id, commit=tree.shown, lacks=lacks)


def workload_there(workload: Workload, tree: Worktree) -> Workload:
    """A workload with the project's absolute paths, also behind `--option=`, as those of the
    checkout.

    What the commit does not hold (data, results, a virtual environment's programs) stays where it
    is; the program, if it is a path, is then taken from the project.
    """
    if workload.command is None:
        return workload
    cwd = tree.root / _path_there(workload.cwd or ".", tree)
    program, *words = (_word_there(word, tree) for word in workload.command)
    in_project = tree.origin / (workload.cwd or ".") / workload.command[0]
    if "/" in program and not (cwd / program).is_file() and in_project.is_file():
        program = str(in_project)
    update = {"command": (program, *words), "cwd": None if workload.cwd is None else str(cwd)}
    return workload.model_copy(update=update)


def _word_there(word: str, tree: Worktree) -> str:
    return _ABSOLUTE.sub(lambda path: _path_there(path[0], tree), word, count=1)


def _path_there(path: str, tree: Worktree) -> str:
    """An absolute path of the project as that of the checkout, where that has it; anything else as
    it is."""
    if path.startswith("/"):
        with suppress(OSError, ValueError):
            there = tree.counterpart(Path(path))
            if there is not None and there.exists():
                return str(there)
    return path


def options_there(options: Sequence[str], tree: Worktree) -> tuple[str, ...]:
    """The options of a worker's pytest with configuration and root of the checkout, and nothing
    from above it.

    A configuration file that the commit does not have is an empty one. The project's absolute
    paths, those of options that a conftest declares and of ini values, are the checkout's, as a
    command's are.
    """
    kept: list[str] = []
    ini = confined = None
    left = iter(options)
    for option in left:
        if option == "-c":
            ini = tree.counterpart(Path(next(left)))
        elif option.startswith("--confcutdir="):
            confined = tree.counterpart(Path(option.partition("=")[2]))
        elif not option.startswith("--rootdir="):
            kept.append(_word_there(option, tree))
    if ini is None or not ini.is_file():
        ini, confined = tree.home / "worker" / "pytest.ini", confined or tree.root
    return (
        f"--rootdir={tree.root}",
        f"--confcutdir={confined or ini.parent}",
        "-c",
        str(ini),
        *kept,
    )


def environment_there(
    env: Mapping[str, str],
    tree: Worktree,
    workload: Workload | None = None,
    *,
    has_own_python: bool = False,
) -> dict[str, str]:
    """The environment of a run in the checkout: what Python finds in the project, it finds there.

    The variables that the workload itself declares lead there too, where they are absolute paths of
    the project, and editable installations in this interpreter's environment, unless the checkout
    `has_own_python`. What torch compiles as it runs lies next to the checkout, whatever
    was said of it. `pin` has been called for it; a command does not get what that made.
    """

    def led(paths: str) -> list[str]:
        return [_path_there(path, tree) for path in paths.split(os.pathsep)]

    folders = [
        *(() if workload is not None and workload.command else (str(tree.home / "worker"),)),
        *(str(folder) for folder in (tree.root, tree.root / "src") if folder.is_dir()),
        *filter(None, led(env.get("PYTHONPATH", ""))),
        *(() if has_own_python else _editable(tree)),
    ]
    declared = {} if workload is None else workload.env
    return {
        **env,
        **{name: os.pathsep.join(led(value)) for name, value in declared.items()},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(folders)),
        TORCH_EXTENSIONS: str(tree.home / "torch_extensions"),
    }


def _editable(tree: Worktree) -> Iterator[str]:
    """Folders of the checkout whose counterparts are on this interpreter's path by `.pth` files."""
    sites = [Path(entry) for entry in sys.path if Path(entry).name in INSTALLED]
    for file in sorted(file for site in sites for file in site.glob("*.pth")):
        with suppress(OSError, ValueError):
            for line in filter(str.strip, file.read_text("utf-8").splitlines()):
                here = str(file.parent / line.strip())
                if (there := _path_there(here, tree)) != here:
                    yield there
