"""Reads `workloads/*.yaml`: an existing script as a workload, untouched. Runs nothing."""

from __future__ import annotations

import itertools
import json
import math
import os
import posixpath
import re
import shlex
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import yaml
from pydantic import Field, ValidationError

from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.metric import Budget, Metric
from perfgate.model.pyproject import check_budgets, check_keys, check_metrics, invalid_value
from perfgate.model.record import Record
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, CaptureWindow, Workload

MOST_VALUES: Final = 20_000
"""In one file: aliases may make more of some lines than anybody would walk through."""
LARGEST_BYTES: Final = 65_536
"""A workload is some ten lines; whatever is larger is another file, which the parser would chew on for minutes."""
LONGEST_S: Final = 86_400
"""Of a window by the clock and of the time before it; nsys 2024.2 refuses 50 days."""

_PATH: Final = re.compile(r"[\w./+-]+")
"""What may be a path within a word of a command, which may be a shell's own command."""
_MODULE: Final = re.compile(r"(?:^| )-m ([\w.]+)")

Validated = TypeVar("Validated", bound=Record)


class CommandFile(Record):
    """The keys of a YAML workload."""

    command: tuple[str, ...] = Field(min_length=1)
    step: str = Field(min_length=1)
    steps: int = Field(ge=3)
    warmup: int = Field(default=0, ge=0)
    capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API
    timeout_s: float | None = Field(default=None, gt=0)
    budgets: Mapping[Metric, Budget] = {}
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None


def read_workload_file(file: Path, *, root: Path, settings: Settings) -> Workload:
    """Read one YAML workload; its id is the file's stem.

    Raises:
        ConfigInvalid: the file is no YAML mapping, or holds a key or value that perfgate does not know.
    """
    source = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    told = _mapping(file, source)
    check_keys(told, known=CommandFile.model_fields, subject=source)
    check_metrics(told.get("budgets"), subject=f"{source} budgets")
    _check_forms(told, source)
    declared = _validated(CommandFile, told, subject=f"{source} ")
    _check_values(declared, source, root)
    check_budgets(declared.budgets, subject=f"{source} budgets")
    return Workload(
        id=file.stem,
        source=source,
        command=declared.command,
        steps=declared.steps,
        warmup=declared.warmup,
        step=declared.step,
        capture=declared.capture,
        timeout_s=declared.timeout_s or settings.timeout_s,
        budgets=declared.budgets,
        pass_env=declared.pass_env,
        env=declared.env,
        cwd=declared.cwd,
    )


def scripts_of(files: Iterable[Path], *, root: Path) -> frozenset[str]:
    """The Python files that the commands of YAML workloads run: by path, or as a module behind `-m`.

    Absolute paths of those that are there from the project's root or the command's `cwd`; others as they are named, who
    knows from where. They are run, and not imported: nobody has guarded what they do. A file that cannot be read names
    none.
    """
    return frozenset(script for file in files for script in _scripts(file, root))


def is_script(file: Path, scripts: Collection[str], *, root: Path) -> bool:
    """Whether one of them is a file of the project's, or may be: by its path from wherever the command stands then."""
    path = f"/{file.relative_to(root).as_posix()}" if file.is_relative_to(root) else file.as_posix()
    named = (f"/{script}" for script in scripts if not script.startswith("/"))
    return os.path.realpath(file) in scripts or any(
        path.endswith(one) or one.endswith(path) for one in named
    )


def _scripts(file: Path, root: Path) -> Iterator[str]:
    try:
        told = _mapping(file, str(file))
    except PerfgateError:  # told where it is collected
        return
    command, cwd = told.get("command"), told.get("cwd")
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


def _validated(record: type[Validated], told: Mapping[str, object], *, subject: str) -> Validated:
    try:
        return record.model_validate(told)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise invalid_value(first, subject=f"{subject}{where}") from None


def _check_forms(told: Mapping[str, object], source: str) -> None:
    """Refuse what pydantic would refuse in words that do not help."""
    command, capture = told.get("command"), told.get("capture")
    if isinstance(command, str) and not any(_words(command)):
        raise ConfigInvalid(
            subject=f"{source} command",
            fact="it is empty",
            expectation="Expected a list of words",
            next_step='Write what it runs, for example: command: ["python", "train.py"]',
        )
    if isinstance(command, str):
        raise ConfigInvalid(
            subject=f"{source} command",
            fact=f"it is the text {command!r}",
            expectation="Expected a list of words: no shell is involved",
            next_step=f"Write command: {json.dumps(_words(command))}",
        )
    if isinstance(capture, Mapping):
        check_keys(capture, known=CaptureWindow.model_fields, subject=f"{source} capture")
        _check_window(_validated(CaptureWindow, capture, subject=f"{source} capture."), source)
    elif capture is not None and capture not in list(CaptureMode):
        raise ConfigInvalid(
            subject=f"{source} capture",
            fact=f"the value is {capture!r}",
            expectation=f"It should be {', '.join(CaptureMode)}, or delay and duration in seconds",
            next_step="Correct it, for example: capture: {delay: 10, duration: 10}",
        )


def _check_window(window: CaptureWindow, source: str) -> None:
    """Refuse times that nsys would round, to none and so to the whole run, or take for 0 because they are too long."""
    for key, seconds in window.model_dump().items():
        if not math.isclose(seconds, round(seconds, 1), abs_tol=1e-9) or seconds > LONGEST_S:
            least = 0 if key == "delay" else 0.1
            raise ConfigInvalid(
                subject=f"{source} capture.{key}",
                fact=f"it is {seconds:g} s",
                expectation=f"nsys takes tenths of a second, and perfgate from {least:g} s to a day ({LONGEST_S} s)",
                next_step="Write a multiple of 0.1 within that, for example: capture: {delay: 10, duration: 2.5}",
            )


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
        raise ConfigInvalid(
            subject=f"{source} step",
            fact=f"{declared.step!r} is no regular expression ({broken})",
            next_step="Escape what is meant literally with a backslash.",
        ) from broken
    for key, words in (
        ("command", declared.command),
        ("env", [*declared.env, *declared.env.values()]),
    ):
        if any("\0" in word for word in words):
            raise ConfigInvalid(
                subject=f"{source} {key}",
                fact="it holds a NUL, which no program can be handed",
                next_step="Remove it.",
            )
    if not declared.command[0]:
        raise ConfigInvalid(
            subject=f"{source} command",
            fact="its first word is empty",
            next_step="Write the program's name there.",
        )
    for name in declared.env:
        if not name or "=" in name:
            raise ConfigInvalid(
                subject=f"{source} env",
                fact=f"{name!r} cannot be a variable's name",
                next_step="Correct it.",
            )
    if declared.cwd is not None and not (root / declared.cwd).is_dir():
        raise ConfigInvalid(
            subject=f"{source} cwd",
            fact=f"there is no folder {declared.cwd}",
            expectation="It is relative to the project's root",
            next_step="Correct it, or leave it out to run in the root.",
        )


class _Loader(yaml.BaseLoader):
    """Reads every scalar as the text that is written, and refuses a key that is there twice.

    The record says which texts are numbers. So `[train.py, 010, 1.10, yes]` hands over just these words, which YAML
    would have made 8, 1.1 and True; and of two keys YAML would silently have taken the last.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Refuse a file that aliases make a large one of before anything walks through it."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _values(node, {})
        return node

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002
    ) -> dict[Hashable, object]:
        """Build a mapping whose keys are texts, each of them once."""
        known: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is no text", key.start_mark
                )
            if key.value in known:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is there twice", key.start_mark
                )
            known.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node holds, those of aliases as often as they stand there.

    Raises:
        yaml.constructor.ConstructorError: there are too many, or it holds itself.
    """
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # within itself
        held = [] if isinstance(node, yaml.ScalarNode) else node.value
        inner = itertools.chain.from_iterable(held) if isinstance(node, yaml.MappingNode) else held
        known[id(node)] = 1 + sum(_values(one, known) for one in inner)
    if known[id(node)] >= MOST_VALUES:
        fact = f"it holds itself, or more than {MOST_VALUES} values, by its aliases"
        raise yaml.constructor.ConstructorError(None, None, fact, node.start_mark)
    return known[id(node)]


def _mapping(file: Path, source: str) -> dict[str, object]:
    try:
        size = file.stat().st_size
        if size > LARGEST_BYTES:
            raise ConfigInvalid(
                subject=source,
                fact=f"it has {size} bytes",
                expectation=f"A workload file has at most {LARGEST_BYTES}",
                next_step="Keep other files out of the folder of workloads.",
            )
        told = yaml.load(file.read_text(encoding="utf-8-sig"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as broken:
        raise ConfigInvalid(
            subject=source,
            fact=f"it cannot be read as YAML ({_why(broken)})",
            next_step=_mend(broken),
        ) from broken
    if not isinstance(told, dict):
        kind = "a list" if isinstance(told, list) else "text"
        raise ConfigInvalid(
            subject=source,
            fact=f"it holds {kind if told else 'nothing'}",
            expectation="Expected a mapping with the keys command, step and steps",
            next_step="See the README for a YAML workload.",
        )
    return told


def _mend(broken: Exception) -> str:
    problem = (broken.problem if isinstance(broken, yaml.MarkedYAMLError) else None) or ""
    if "unknown escape character" in problem:
        return r"""In double quotes a backslash is written twice ("Batch \\d+"), in single quotes once ('Batch \d+')."""
    return "Indent with spaces." if r"'\t'" in problem else "Correct the file."


def _why(broken: Exception) -> str:
    """Tell an error in one line, with the line it is on."""
    if isinstance(broken, yaml.MarkedYAMLError) and broken.problem_mark is not None:
        mark = broken.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {broken.problem}"
    if isinstance(broken, OSError):
        return broken.strerror or str(broken)
    return " ".join(str(broken).split())
