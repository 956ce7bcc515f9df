"""Reads `workloads/*.yaml`: an existing script as a workload, untouched. Runs nothing."""

from __future__ import annotations

import json
import math
import os
import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import Field

from perfgate.model.errors import PerfgateError
from perfgate.model.metric import Budget, Metric
from perfgate.model.record import Record
from perfgate.model.settings import Settings, check_budgets, check_keys, validated, wrong
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload

LONGEST_S: Final = 86_400
"""Of a window by the clock and of the time before it; nsys 2024.2 refuses 50 days."""

_PATH: Final = re.compile(r"[\w./+-]+")
"""What may be a path within a word of a command, which may be a shell's own command."""
_MODULE: Final = re.compile(r"(?:^| )-m ([\w.]+)")


class CommandFile(Record):
    """The keys of a YAML workload."""

    command: tuple[str, ...] = Field(min_length=1)
    step: str = Field(min_length=1)
    steps: int = Field(ge=3)
    warmup: int = Field(default=0, ge=0)
    capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API
    timeout_s: float | None = Field(default=None, gt=0)
    ahead: int | None = Field(default=None, ge=1, le=16)
    budgets: Mapping[Metric, Budget] = {}
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None


def read_workload_file(file: Path, *, root: Path, settings: Settings) -> Workload:
    """Read one YAML workload; its id is the file's stem.

    Raises:
        ConfigInvalid: the file is no YAML mapping, or holds a key or value that is not accepted.
    """
    source = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    given = _mapping(file, source)
    check_keys(given, known=CommandFile.model_fields, place=source)
    _check_forms(given, source)
    check_budgets(given.get("budgets"), place=f"{source} budgets")
    declared = validated(CommandFile, given, place=f"{source} ")
    _check_values(declared, source, root)
    check_budgets(declared.budgets, place=f"{source} budgets")
    return Workload(
        id=file.stem,
        source=source,
        command=declared.command,
        steps=declared.steps,
        warmup=declared.warmup,
        step=declared.step,
        capture=declared.capture,
        timeout_s=declared.timeout_s or settings.timeout_s,
        ahead=declared.ahead,
        budgets=declared.budgets,
        pass_env=declared.pass_env,
        env=declared.env,
        cwd=declared.cwd,
    )


def scripts_of(files: Iterable[Path], *, root: Path) -> frozenset[str]:
    """The Python files that the commands of YAML workloads run: by path, or as a module behind
    `-m`.

    Absolute paths of those that are there from the project's root or the command's `cwd`; others as
    they are named, who knows from where. They are run, and not imported: nobody has guarded what
    they do. A file that cannot be read names none.
    """
    return frozenset(script for file in files for script in _scripts(file, root))


def is_script(file: Path, scripts: Collection[str], *, root: Path) -> bool:
    """Whether one of them is a file of the project's, or may be: by its path from wherever the
    command stands then."""
    path = f"/{file.relative_to(root).as_posix()}" if file.is_relative_to(root) else file.as_posix()
    named = (f"/{script}" for script in scripts if not script.startswith("/"))
    return os.path.realpath(file) in scripts or any(
        path.endswith(one) or one.endswith(path) for one in named
    )


def _scripts(file: Path, root: Path) -> Iterator[str]:
    try:
        given = _mapping(file, str(file))
    except PerfgateError:  # given where it is collected
        return
    command, cwd = given.get("command"), given.get("cwd")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    modules = [module.replace(".", "/") for module in _MODULE.findall(" ".join(words))]
    named = [one for word in words for one in {word, *_PATH.findall(word)} if one.endswith(".py")]
    folders = [root, *([root / cwd] if isinstance(cwd, str) else [])]
    for name in (
        *named,
        *(f"{module}.py" for module in modules),
        *(f"{module}/__main__.py" for module in modules),
    ):
        there = [folder / name for folder in folders]
        found = [os.path.realpath(path) for path in there if os.path.isfile(path)]  # noqa: PTH113 - no name is too long
        yield from found or [posixpath.normpath(name).lstrip("./")]


def _check_forms(given: Mapping[str, object], source: str) -> None:
    """Refuse what pydantic would refuse in words that do not help."""
    command, capture = given.get("command"), given.get("capture")
    if isinstance(command, str):
        words = _words(command) or ["python", "train.py"]
        raise wrong(f"{source} command", command, "expects-words", words=json.dumps(words))
    if isinstance(capture, Mapping):
        check_keys(capture, known=CaptureWindow.model_fields, place=f"{source} capture")
        _check_window(validated(CaptureWindow, capture, place=f"{source} capture."), source)
    elif capture is not None and capture not in list(CaptureMode):
        raise wrong(f"{source} capture", capture, "expects-capture")


def _check_window(window: CaptureWindow, source: str) -> None:
    """Refuse times that nsys would round, or take for 0 because they are too long."""
    for key, seconds in window.model_dump().items():
        if not math.isclose(seconds, round(seconds, 1), abs_tol=1e-9) or seconds > LONGEST_S:
            least = 0.0 if key == "delay" else 0.1
            place = f"{source} capture.{key}"
            raise wrong(place, seconds, "expects-tenths", least=least, most=LONGEST_S)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation that does not end
        return command.split()


def _check_values(declared: CommandFile, source: str, root: Path) -> None:
    """Refuse values that are of the right type, and that no run could use."""
    try:
        re.compile(declared.step)
    except (re.error, OverflowError, RecursionError) as broken:
        problem = str(broken)
        raise wrong(f"{source} step", declared.step, "expects-pattern", problem=problem) from broken
    for key, words in (
        ("command", declared.command),
        ("env", (*declared.env, *declared.env.values())),
    ):
        if any("\0" in word for word in words):
            raise wrong(f"{source} {key}", words, "expects-no-nul")
    if not declared.command[0]:
        raise wrong(f"{source} command", declared.command, "expects-some")
    for name in declared.env:
        if not name or "=" in name:
            raise wrong(f"{source} env", name, "expects-variable")
    if isinstance(declared.capture, CaptureWindow) and (declared.ahead or 1) > 1:
        raise wrong(f"{source} ahead", declared.ahead, "expects-alone")
    if declared.cwd is not None and not (root / declared.cwd).is_dir():
        raise wrong(f"{source} cwd", declared.cwd, "expects-existing-folder")


def _mapping(file: Path, source: str) -> Mapping[str, object]:
    from perfgate.model import yaml_file  # noqa: PLC0415 - few projects have such files

    return yaml_file.mapping(file, source)
