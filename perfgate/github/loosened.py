"""What a change may not touch unseen: all that decides about a project's gate, as facts of which
each is compared.

Whatever cannot be said to make the gate stricter counts as loosening it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from statistics import median
from typing import Any, Final

from perfgate.model.baseline import Baseline
from perfgate.model.loosening import Difference, Direction
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew
from perfgate.model.record import Record
from perfgate.model.settings import ABForm, Settings
from perfgate.model.workload import Declared, Workload
from perfgate.words.names import plural

LONGEST: Final = 200
"""Characters of a value that are shown."""
PARTS: Final = ("settings", "pytest", "workloads", "baselines")
"""What can be read whole or not at all."""

Loosens = Callable[[Any, Any], bool | None]
"""Whether another value (old, new) lets more through; None where it does neither."""


def always(old: object, new: object) -> bool:  # noqa: ARG001
    """Nobody can say that another value does not loosen the gate."""
    return True


def never(old: object, new: object) -> None:
    """It has nothing to do with the gate."""


def more(old: float | None, new: float | None) -> bool:
    """A larger value lets more through, and none most."""
    return _number(new) > _number(old)


def less(old: float | None, new: float | None) -> bool:
    """A smaller value lets more through."""
    return _number(new) < _number(old)


def _number(value: float | None) -> float:
    return float("inf") if value is None else value


def later(*strictest_first: object) -> Loosens:
    """The later of the values lets more through."""
    return lambda old, new: strictest_first.index(new) > strictest_first.index(old)


def slower(old: tuple[float, ...], new: tuple[float, ...]) -> bool:
    """Runs whose median or whose highest is higher let more through."""
    return not new or (bool(old) and (median(new) > median(old) or max(new) > max(old)))


RULES: Final[Mapping[str, Loosens]] = {
    "anchor_budget": more,
    "timeout_s": more,
    "warmup": more,
    "runs": less,
    "max_runs": less,
    "time_budget_s": less,
    "steps": less,
    "inconclusive": later(OnInconclusive.FAIL, OnInconclusive.WARN),
    "new": later(OnNew.FAIL, OnNew.ALLOW),
    "loosened": later(OnLoosened.FAIL, OnLoosened.WARN),
    "ab_run": lambda old, new: old is not ABForm.OFF,  # noqa: ARG005
}
"""By the name of a setting, or of a part of a declaration; all others always loosen."""
_OF_PYTEST_ALONE: Final = (
    *("asyncio_*", "cache_dir", "console_output_style", "doctest_*", "filterwarnings", "junit_*"),
    *("log_*", "markers", "minversion", "tmp_path_*", "verbosity_*"),
)
"""Options of pytest that neither choose workloads nor reach perfgate."""
_FOLLOWS: Final = frozenset(
    {"format", "workload", "digest", "code", "source", "breakdown", "has_options", "blessing"}
    | {"occasions", "anchor", "calibration", "parameters", "machine", "held", "code_files"}
)
"""Fields of a baseline that are facts of their own, or follow from others."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing that decides about a gate."""

    value: object
    loosens: Loosens = always
    shown: str | None = None
    """None: the value itself."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One state of a project, as far as it decides about its own gate."""

    facts: Mapping[str, Fact]
    """By what each is called: `setting runs`, `workload mlp`, `workload mlp: steps`."""
    unread: Mapping[str, str]
    """By part, why it cannot be read."""


def differences(base: Gate, head: Gate) -> tuple[Difference, ...]:
    """All that differs, what loosens the gate first."""
    unread = [
        _difference(part, base.unread.get(part), head.unread.get(part), Direction.LOOSENS)
        for part in PARTS
        if part in base.unread or part in head.unread
    ]
    passed_over = tuple(
        f"{part.removesuffix('s')} " for part in PARTS if part in base.unread or part in head.unread
    )
    found: list[Difference] = []
    for what in sorted({*base.facts, *head.facts}):
        owner = what.partition(": ")[0]
        was, now = (
            gate.facts[owner].value if owner in gate.facts else None for gate in (base, head)
        )
        if (what == owner or was == now) and not what.startswith(passed_over):
            found += _compared(what, base.facts.get(what), head.facts.get(what))
    order = list(Direction)
    return tuple(sorted([*unread, *found], key=lambda one: order.index(one.direction)))


def _compared(what: str, old: Fact | None, new: Fact | None) -> Iterator[Difference]:
    was, now = (None if one is None else one.value for one in (old, new))
    if was == now and None not in (old, new):
        return
    known = old or new
    assert known is not None  # it is a fact of one of them
    loosens = known.loosens(was, now)
    direction = Direction.LOOSENS if loosens else Direction.TIGHTENS
    if loosens is None:
        direction = Direction.NEITHER
    texts = [None if one is None else one.shown or _text(one.value) for one in (old, new)]
    yield _difference(what, texts[0], texts[1], direction)


def _difference(what: str, old: str | None, new: str | None, direction: Direction) -> Difference:
    was, now = (None if text is None else _short(text) for text in (old, new))
    return Difference(what=_short(what), old=was, new=now, direction=direction)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case StrEnum():
            return value.value
        case str():
            return value
        case float():
            return f"{value:.6g}"
        case Record():
            return value.model_dump_json()
        case _:
            return json.dumps(value, default=str, ensure_ascii=False)


def unless_new(old: object, new: object) -> bool:  # noqa: ARG001
    """What is there no more, or is another, lets more through; what was not there before does not."""
    return old is not None


# The facts


def settings_facts(settings: Settings) -> Iterator[tuple[str, Fact]]:
    """What `[tool.perfgate]` sets."""
    for name in Settings.model_fields:
        if name != "budgets":
            yield f"setting {name}", _ruled(name, getattr(settings, name))
    yield from _budgets("setting budget", settings.budgets)


def _ruled(name: str, value: object) -> Fact:
    return Fact(value=value, loosens=RULES.get(name, always))


def _budgets(what: str, budgets: Mapping[Metric, float]) -> Iterator[tuple[str, Fact]]:
    """Budgets as they count: one that is not set is the metric's own, and a count without one is
    exact."""
    for metric, spec in METRICS.items():
        default = None if spec.clock is None else spec.clock.budget
        if spec.kind is Kind.COUNT:
            default = 0.0
        yield f"{what} {metric}", Fact(value=budgets.get(metric, default), loosens=more)


def pytest_facts(options: Mapping[str, object]) -> Iterator[tuple[str, Fact]]:
    """What pytest's configuration file sets."""
    for name, value in options.items():
        is_own = any(fnmatchcase(name, pattern) for pattern in _OF_PYTEST_ALONE)
        yield f"pytest {name}", Fact(value=value, loosens=never if is_own else always)


def code_facts(files: Mapping[str, str]) -> Iterator[tuple[str, Fact]]:
    """Code that decides about the gate, by what it is called: hooks, the rest of a conftest,
    workflows."""
    for name, text in files.items():
        yield name, Fact(value=text, shown=plural(len(text.splitlines()), "line"))


def workload_facts(declared: Declared) -> Iterator[tuple[str, Fact]]:
    """What a workload's declaration says of how it is measured."""
    workload = declared.workload
    what = f"workload {workload.id}"
    yield what, Fact(value=True, loosens=unless_new, shown=workload.source)
    if declared.skipped is not None:
        skips = Fact(value=declared.skipped, loosens=lambda old, new: new is not None)  # noqa: ARG005
        yield f"{what}: skipped", skips
    yield from _budgets(f"{what}: budget", workload.budgets)
    for name, value in _declared(workload).items():
        yield f"{what}: {name}", _ruled(name, value)


def _declared(workload: Workload) -> Mapping[str, object]:
    names = ("steps", "warmup", "timeout_s", "pass_env", "cwd")
    return {
        **workload.comparable_parameters(),
        **{name: getattr(workload, name) for name in names},
    }


def baseline_facts(
    slug: str, workload: str, baseline: Baseline | None
) -> Iterator[tuple[str, Fact]]:
    """What a baseline holds, value by value; None: it cannot be read."""
    what = f"baseline {workload} on {slug}"
    state = "cannot be read" if baseline is None else "can be read"
    yield what, Fact(value=state, loosens=unless_new)
    if baseline is None:
        return
    for metric in METRICS:
        if values := tuple(sorted(baseline.values(metric))):
            shown = f"{median(values):.5g}, at most {values[-1]:.5g}"
            yield f"{what}: {metric}", Fact(value=values, loosens=slower, shown=shown)
        yield f"{what}: held {metric}", Fact(value=baseline.held.get(metric, 0.0), loosens=more)
    yield f"{what}: runs", Fact(value=len(baseline.runs), loosens=less)
    yield f"{what}: occasions", Fact(value=len(baseline.occasions), loosens=less)
    best = None if baseline.anchor is None else baseline.anchor.step_ms
    yield f"{what}: anchor", Fact(value=best, loosens=more)
    yield from _spreads(what, baseline)
    yield f"{what}: commit", _commits(baseline)
    for kind in ("parameters", "machine"):
        held = getattr(baseline, kind)
        for name, value in (held if isinstance(held, Mapping) else dict(held)).items():
            yield f"{what}: {kind} {name}", Fact(value=value)
    for name in Baseline.model_fields:
        if name not in _FOLLOWS:
            yield f"{what}: {name}", Fact(value=getattr(baseline, name))


def _spreads(what: str, baseline: Baseline) -> Iterator[tuple[str, Fact]]:
    def wider(old: tuple[float, float], new: tuple[float, float]) -> bool:
        return any(after > before for before, after in zip(old, new, strict=True))

    for metric, spec in METRICS.items():
        if spec.clock is not None:
            one = baseline.calibration.get(metric)
            sds = (spec.clock.prior_sd, spec.clock.occasion_sd)
            if one is not None:
                sds = (one.run_sd, one.occasion_sd)
            shown = f"run SD {sds[0]:.3g}, occasion SD {sds[1]:.3g}"
            yield f"{what}: calibration of {metric}", Fact(value=sds, loosens=wider, shown=shown)


def _commits(baseline: Baseline) -> Fact:
    """The commits of the runs. What was measured anew was so at another one, and its values say
    what that does."""
    shas = sorted({one.commit.sha for one in baseline.occasions if one.commit is not None})
    values = baseline.values(Metric.STEP_MS)

    def loosens(old: _Commits, new: _Commits) -> bool | None:
        return True if old.values == new.values else None

    shown = " ".join(sha[:12] for sha in shas)
    return Fact(value=_Commits(shas=tuple(shas), values=values), loosens=loosens, shown=shown)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Commits:
    shas: tuple[str, ...]
    values: tuple[float, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Commits) and self.shas == other.shas

    __hash__ = None  # type: ignore[assignment]
