"""What a workload author writes: the `@workload` mark, the `steps` that drive a loop, and the files
that hold them.

Light by design: importing this file imports neither torch nor nvtx, numpy nor pydantic.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

Function = TypeVar("Function", bound=Callable[..., object])

MARK = "__perfgate_workload__"
AUTO_WARMUP = 10
"""Fewest warm-up turns of a workload with `steps="auto"`, whose number is chosen by the last five.
"""
NOT_ENTERED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")
"""Folders that pytest, by default (`norecursedirs`), does not look for files in."""


class Declaration:
    """What `@workload(...)` says of a function. No dataclass: that takes long to make."""

    def __init__(
        self,
        *,
        steps: int | None,
        warmup: int,
        timeout_s: float | None,
        budgets: Mapping[str, float],
        pass_env: tuple[str, ...],
        ahead: int | None = None,
    ) -> None:
        self.steps, self.warmup, self.timeout_s = steps, warmup, timeout_s
        self.budgets, self.pass_env, self.ahead = budgets, pass_env, ahead


@runtime_checkable
class Steps(Protocol):
    """The measured loop: iterate over it once, to the end, doing one step of work a turn.

    Yields 0, 1, 2, ...: first the warm-up turns, then the measured ones. Each measured turn is one
    NVTX range ``step``; the GPU is synchronised before the first and after the last of them, and
    never in between, but for an A/B run of blocks, which takes more steps and waits after every few
    of them while the other side takes its own.
    """

    def __iter__(self) -> Iterator[int]:
        """Start the loop; a second start is an error."""
        ...

    def __len__(self) -> int:
        """Warm-up and measured turns together; a TypeError while the number is to be chosen."""
        ...


def workload(
    bare: None = None,
    /,
    *,
    steps: int | Literal["auto"] = 30,
    warmup: int = 10,
    timeout_s: float | None = None,
    budgets: Mapping[str, float] | None = None,
    pass_env: Sequence[str] = (),
    ahead: int | None = None,
) -> Callable[[Function], Function]:
    """Declare a function to be a perfgate workload; pytest's marks, fixtures and parameters work as
    on any test.

    The function takes the fixture ``steps`` (see `Steps`) and runs its loop over it.

    Args:
        steps: measured turns; at least 3, since periods are taken between completions and the first
            is dropped. "auto": as many as take a second, of which the first run measures in its
            last warm-up turns how many these are; later runs take as many as the baseline's.
        warmup: turns before the capture starts.
        timeout_s: seconds that one run may take; by default the project's.
        budgets: what a metric may lose, as fractions by metric name: ``{"step_ms": 0.05}``.
        pass_env: environment variables to hand over although their names look like secrets.
        ahead: runs that may be alive at once; 1 where two of them would want the same port or file.

    Raises:
        TypeError: the mark is used without parentheses, on something that takes no ``steps``, or on
        a second function
            of one name.
        ValueError: `steps`, `warmup`, `timeout_s` or `ahead` is too small; of `steps="auto"` a
            `warmup` of less than 10 is.
    """
    if bare is not None:
        raise TypeError(f"@workload{_misused(bare)}. Write @workload(steps=30, warmup=10).")
    if steps != "auto":
        _check_int("steps", steps, minimum=3)
    _check_int("warmup", warmup, minimum=0)
    if steps == "auto" and warmup < AUTO_WARMUP:
        raise ValueError(
            f"@workload: warmup is {warmup}, expected at least {AUTO_WARMUP} "
            'for steps="auto", by which it is chosen.'
        )
    if ahead is not None:
        _check_int("ahead", ahead, minimum=1)
    if timeout_s is not None and (
        isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float)
    ):
        raise TypeError(f"@workload: timeout_s is {timeout_s!r}, expected a number of seconds.")
    if timeout_s is not None and not 0 < timeout_s < math.inf:
        raise ValueError(f"@workload: timeout_s is {timeout_s!r}, expected seconds above 0.")
    if budgets is not None and not isinstance(budgets, Mapping):
        raise TypeError(f"@workload: budgets is {budgets!r}, expected fractions by metric name.")
    if isinstance(pass_env, str):
        raise TypeError(
            f"@workload: pass_env is the string {pass_env!r}, expected a list of variable names."
        )
    declaration = Declaration(
        steps=None if steps == "auto" else steps,
        warmup=warmup,
        timeout_s=timeout_s,
        budgets=dict(budgets or {}),
        pass_env=tuple(pass_env),
        ahead=ahead,
    )

    def mark(function: Function) -> Function:
        name = getattr(function, "__name__", repr(function))
        if not inspect.isfunction(function):
            given = type(function).__name__
            raise TypeError(f"@workload on {name}: it is a {given}, expected a plain function.")
        if (kind := _not_run_through(function)) is not None:
            why = f"it is {kind}, of which calling runs nothing"
            raise TypeError(f"@workload on {name}: {why}. Write a plain function.")
        if "." in function.__qualname__.rpartition("<locals>.")[2]:
            why = "it stands in a class, of which nothing is collected"
            raise TypeError(
                f"@workload on {function.__qualname__}: {why}. Move it out of the class."
            )
        if "steps" not in inspect.signature(function).parameters:
            raise TypeError(
                f"@workload on {name}: it takes no argument 'steps'. Write def {name}(steps): ..."
            )
        if (line := _replaced_by(function)) is not None:
            why = f"it takes the place of the workload of that name in line {line}"
            raise TypeError(
                f"@workload on {name}: {why}, which would not be measured. Rename one of them."
            )
        setattr(function, MARK, declaration)
        return function

    return mark


def declaration_of(candidate: object) -> Declaration | None:
    """Return what `@workload` said of an object, None for anything else."""
    found = getattr(candidate, MARK, None) if inspect.isfunction(candidate) else None
    return found if isinstance(found, Declaration) else None


def holds_workloads(file_path: Path) -> bool:
    """Whether a file is a Python file of workloads by its name."""
    name = file_path.name
    return file_path.suffix == ".py" and name != "conftest.py" and not name.startswith(("_", "."))


def holds_command(file_path: Path) -> bool:
    """Whether a file is the YAML file of one workload by its name."""
    return file_path.suffix.lower() in {".yaml", ".yml"} and not file_path.name.startswith(
        ("_", ".")
    )


def workload_files(folder: Path) -> Iterator[Path]:
    """The files below a folder that hold workloads by their names, folder by folder; none where
    there is no folder."""
    for parent, folders, files in os.walk(folder):
        entered = (
            name
            for name in folders
            if not any(fnmatchcase(name, pattern) for pattern in NOT_ENTERED)
        )
        folders[:] = sorted(
            name for name in entered if not (Path(parent, name) / "pyvenv.cfg").is_file()
        )
        for file in sorted(Path(parent, name) for name in files):
            if (holds_workloads(file) or holds_command(file)) and file.is_file():
                yield file


def _not_run_through(function: Callable[..., object]) -> str | None:
    """What kind of function it is, if calling it does not run its body."""
    kinds: tuple[tuple[str, Callable[[object], bool]], ...] = (
        ("a coroutine function", inspect.iscoroutinefunction),
        ("a generator function", inspect.isgeneratorfunction),
        ("an asynchronous generator function", inspect.isasyncgenfunction),
    )
    return next((kind for kind, is_kind in kinds if is_kind(function)), None)


def _replaced_by(function: Callable[..., object]) -> int | None:
    """The line of another workload of the function's file that is known by its name alone, which it
    takes now."""
    written = inspect.unwrap(function)
    if not inspect.isfunction(written):
        return None
    earlier = written.__globals__.get(written.__qualname__)
    if earlier is None or declaration_of(earlier) is None:
        return None
    if sum(held is earlier for held in written.__globals__.values()) > 1:
        return None
    code, before = written.__code__, getattr(inspect.unwrap(earlier), "__code__", None)
    if before is None or before.co_filename != code.co_filename:
        return None
    # One def that is executed twice makes a workload under a name of its own, as a rule.
    return before.co_firstlineno if before.co_firstlineno != code.co_firstlineno else None


def _misused(given: object) -> str:
    name = getattr(given, "__name__", None)
    return f" on {name}: used without parentheses" if name else f": {given!r} needs a name"


def _check_int(name: str, value: object, *, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"@workload: {name} is {value!r}, expected a whole number.")
    if value < minimum:
        raise ValueError(f"@workload: {name} is {value}, expected at least {minimum}.")
