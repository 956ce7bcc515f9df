"""What a change may not touch unseen: one list of all that differs between two states of a project's gate.

Whatever cannot be said to make the gate stricter counts as loosening it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from statistics import median
from typing import Final

from perfgate.model.baseline import Baseline
from perfgate.model.loosening import Difference, Direction
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew
from perfgate.model.record import Record
from perfgate.model.settings import DuetForm, Settings
from perfgate.model.words import plural
from perfgate.model.workload import Declared, Workload

LONGEST: Final = 200
"""Characters of a value that are shown."""
NOT_READ: Final = "cannot be read"

_MORE_LOOSENS: Final = frozenset({"anchor_budget", "timeout_s", "warmup", "budgets", "held"})
_LESS_LOOSENS: Final = frozenset({"runs", "max_runs", "time_budget_s", "steps"})
_STRICTEST_FIRST: Final[Mapping[str, Sequence[object]]] = {
    "inconclusive": (OnInconclusive.FAIL, OnInconclusive.WARN),
    "new": (OnNew.FAIL, OnNew.ALLOW),
    "loosened": (OnLoosened.FAIL, OnLoosened.WARN),
}
_OF_PYTEST_ALONE: Final = (
    *(
        "asyncio_*",
        "cache_dir",
        "console_output_style",
        "doctest_*",
        "filterwarnings",
        "junit_*",
        "log_*",
    ),
    *("markers", "minversion", "tmp_path_*", "verbosity_*"),
)
"""Options of pytest that neither choose workloads nor reach perfgate."""
_SPOKEN_FOR: Final = frozenset(
    {"format", "workload", "digest", "code", "source", "breakdown", "has_options", "blessing"}
    | {"occasions", "anchor", "calibration", "parameters", "machine"}
)
"""Fields of a baseline that are compared in their own way, or follow from others."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One state of a project, as far as it decides about its own gate. What cannot be read is None."""

    settings: Settings | None
    pytest: Mapping[str, object] | None
    """What pytest's configuration file sets."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Code that decides about the gate, by what it is called: hooks, the rest of a conftest, workflows."""
    workloads: Mapping[str, Declared] | None
    """By id."""
    baselines: Mapping[tuple[str, str], Baseline | None]
    """By the machine's folder and the workload's id."""
    fault: str = ""
    """Why something cannot be read, in the words of whoever tried."""


def differences(base: Gate, head: Gate) -> tuple[Difference, ...]:
    """All that differs, what loosens the gate first."""
    found = (
        *_settings(base, head),
        *_pytest(base, head),
        *_code(base.files, head.files),
        *_workloads(base, head),
        *_baselines(base.baselines, head.baselines),
    )
    order = list(Direction)
    return tuple(sorted(found, key=lambda one: order.index(one.direction)))


# Settings


def _settings(base: Gate, head: Gate) -> Iterator[Difference]:
    if base.settings is None or head.settings is None:
        yield _unread("settings", base, head, base.settings, head.settings)
        return
    for name in Settings.model_fields:
        old, new = getattr(base.settings, name), getattr(head.settings, name)
        if name == "budgets":
            yield from _budgets("setting budget", old, new)
        elif old != new:
            yield _differing(f"setting {name}", old, new, _direction(name, old, new))


def _budgets(
    what: str, old: Mapping[Metric, float], new: Mapping[Metric, float]
) -> Iterator[Difference]:
    """Compare budgets as they count: one that is not set is the metric's own, and a count without one is exact."""
    for metric, spec in METRICS.items():
        if old.get(metric) == new.get(metric):
            continue
        default = (
            0.0 if spec.kind is Kind.COUNT else None if spec.clock is None else spec.clock.budget
        )
        was, now = old.get(metric, default), new.get(metric, default)
        yield _differing(f"{what} {metric}", was, now, _direction("budgets", was, now))


def _direction(name: str, old: object, new: object) -> Direction:
    """What another value of a setting or declaration does; of one that is not known, that it loosens."""
    if old == new:
        return Direction.NEITHER
    if name == "duet":
        return Direction.TIGHTENS if old is DuetForm.OFF else Direction.LOOSENS
    if (order := _STRICTEST_FIRST.get(name)) is not None:
        return Direction.LOOSENS if order.index(new) > order.index(old) else Direction.TIGHTENS
    if name in _MORE_LOOSENS | _LESS_LOOSENS:
        # Without a limit there is most; a baseline that holds no budget of its own leaves the smaller one.
        missing = 0.0 if name == "held" else float("inf")
        was, now = (_number(value, missing=missing) for value in (old, new))
        return Direction.LOOSENS if (now > was) is (name in _MORE_LOOSENS) else Direction.TIGHTENS
    return Direction.LOOSENS


def _number(value: object, *, missing: float) -> float:
    return float(value) if isinstance(value, int | float) else missing


def _pytest(base: Gate, head: Gate) -> Iterator[Difference]:
    if base.pytest is None or head.pytest is None:
        yield _unread("pytest's configuration", base, head, base.pytest, head.pytest)
        return
    for name in sorted({*base.pytest, *head.pytest}):
        old, new = base.pytest.get(name), head.pytest.get(name)
        if old != new:
            own = any(fnmatchcase(name, pattern) for pattern in _OF_PYTEST_ALONE)
            yield _differing(
                f"pytest {name}", old, new, Direction.NEITHER if own else Direction.LOOSENS
            )


def _code(base: Mapping[str, str], head: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*base, *head}):
        old, new = base.get(name), head.get(name)
        if old != new:
            same = old is not None and new is not None and old.count("\n") == new.count("\n")
            was, now = (None if text is None else _lines(text) for text in (old, new))
            yield _differing(name, was, f"{now}, others" if same else now, Direction.LOOSENS)


def _lines(text: str) -> str:
    return plural(len(text.splitlines()), "line")


# Workloads


def _workloads(base: Gate, head: Gate) -> Iterator[Difference]:
    if base.workloads is None or head.workloads is None:
        yield _unread("workloads", base, head, base.workloads, head.workloads)
        return
    for name in sorted({*base.workloads, *head.workloads}):
        old, new = base.workloads.get(name), head.workloads.get(name)
        what = f"workload {name}"
        if old is None or new is None:
            was, now = (None if one is None else one.workload.source for one in (old, new))
            yield _differing(
                what, was, now, Direction.LOOSENS if new is None else Direction.TIGHTENS
            )
            continue
        if old.skipped != new.skipped:
            direction = Direction.TIGHTENS if new.skipped is None else Direction.LOOSENS
            yield _differing(f"{what}: skipped", old.skipped, new.skipped, direction)
        yield from _budgets(f"{what}: budget", old.workload.budgets, new.workload.budgets)
        before, after = _declared(old.workload), _declared(new.workload)
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                direction = _direction(key, before.get(key), after.get(key))
                yield _differing(f"{what}: {key}", before.get(key), after.get(key), direction)


def _declared(workload: Workload) -> Mapping[str, object]:
    """What a workload's declaration says of how it is measured, but for its budgets."""
    return {
        **workload.comparable_parameters(),
        **{
            name: getattr(workload, name)
            for name in ("steps", "warmup", "timeout_s", "pass_env", "cwd")
        },
    }


# Baselines


def _baselines(
    base: Mapping[tuple[str, str], Baseline | None], head: Mapping[tuple[str, str], Baseline | None]
) -> Iterator[Difference]:
    for slug, workload in sorted({*base, *head}):
        what, old, new = (
            f"baseline {workload} on {slug}",
            base.get((slug, workload)),
            head.get((slug, workload)),
        )
        if (slug, workload) not in head:
            yield _differing(what, _whole(old), None, Direction.LOOSENS)
        elif (slug, workload) not in base:
            yield _differing(what, None, _whole(new), Direction.TIGHTENS)
        elif old is not None and new is not None:
            yield from _blessed(what, old, new)
        elif old is not new:
            yield _differing(what, _whole(old), _whole(new), Direction.LOOSENS)


def _whole(baseline: Baseline | None) -> str:
    """A baseline in a few words."""
    if baseline is None:
        return NOT_READ
    steps = baseline.values(Metric.STEP_MS)
    return plural(len(baseline.runs), "run") + (f", step_ms {median(steps):.5g}" if steps else "")


def _blessed(what: str, old: Baseline, new: Baseline) -> Iterator[Difference]:
    """Compare two baselines value by value."""
    rows = [
        *_values(what, old, new),
        *_spreads(what, old, new),
        *_rest(what, old, new),
        *_commits(what, old, new),
    ]
    unsaid = {
        "blessing": new.blessing,
        "format": new.format,
        "digest": new.digest,
        "breakdown": new.breakdown,
    }
    if not rows and old.model_copy(update=unsaid) != new:
        rows = [_differing(f"{what}: otherwise", "one", "another", Direction.LOOSENS)]
    yield from rows


def _commits(what: str, old: Baseline, new: Baseline) -> Iterator[Difference]:
    was, now = (
        sorted({one.commit.sha for one in side.occasions if one.commit is not None})
        for side in (old, new)
    )
    if was != now:
        # What was measured anew was measured at another commit, and its values say what that does.
        anew = old.values(Metric.STEP_MS) != new.values(Metric.STEP_MS)
        shown = [" ".join(sha[:12] for sha in side) or None for side in (was, now)]
        yield _differing(
            f"{what}: commit", shown[0], shown[1], Direction.NEITHER if anew else Direction.LOOSENS
        )


def _values(what: str, old: Baseline, new: Baseline) -> Iterator[Difference]:
    for metric in METRICS:
        was, now = old.values(metric), new.values(metric)
        if sorted(was) == sorted(now):
            continue
        slower = not now or (bool(was) and (median(now) > median(was) or max(now) > max(was)))
        direction = Direction.LOOSENS if slower else Direction.TIGHTENS
        yield _differing(f"{what}: {metric}", _range(was), _range(now), direction)
    for name, before, after in (
        ("runs", len(old.runs), len(new.runs)),
        ("occasions", len(old.occasions), len(new.occasions)),
    ):
        if before != after:
            direction = Direction.LOOSENS if after < before else Direction.TIGHTENS
            yield _differing(f"{what}: {name}", before, after, direction)
    best = [None if one.anchor is None else one.anchor.step_ms for one in (old, new)]
    if best[0] != best[1]:
        tighter = best[1] is not None and (best[0] is None or best[1] < best[0])
        yield _differing(
            f"{what}: anchor",
            best[0],
            best[1],
            Direction.TIGHTENS if tighter else Direction.LOOSENS,
        )


def _range(values: Collection[float]) -> str | None:
    """Runs of one metric: their median, and the highest where that is another."""
    if not values:
        return None
    middle, highest = f"{median(values):.5g}", f"{max(values):.5g}"
    return middle if middle == highest else f"{middle}, at most {highest}"


def _spreads(what: str, old: Baseline, new: Baseline) -> Iterator[Difference]:
    for metric, spec in METRICS.items():
        was, now = old.calibration.get(metric), new.calibration.get(metric)
        if spec.clock is None or was == now:
            continue
        default = (spec.clock.prior_sd, spec.clock.occasion_sd)
        sds = [default if one is None else (one.run_sd, one.occasion_sd) for one in (was, now)]
        if sds[0] != sds[1]:
            wider = any(after > before for before, after in zip(*sds, strict=True))
            shown = [
                None
                if one is None
                else f"run SD {one.run_sd:.3g}, occasion SD {one.occasion_sd:.3g}"
                for one in (was, now)
            ]
            direction = Direction.LOOSENS if wider else Direction.TIGHTENS
            yield _differing(f"{what}: calibration of {metric}", shown[0], shown[1], direction)


def _rest(what: str, old: Baseline, new: Baseline) -> Iterator[Difference]:
    for kind in ("parameters", "machine"):
        was, now = (_fields(getattr(one, kind)) for one in (old, new))
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                yield _differing(
                    f"{what}: {kind} {name}", was.get(name), now.get(name), Direction.LOOSENS
                )
    for name in Baseline.model_fields:
        if name in _SPOKEN_FOR:
            continue
        was_held, now_held = getattr(old, name), getattr(new, name)
        if (
            isinstance(was_held, Mapping)
            and isinstance(now_held, Mapping)
            and name in _MORE_LOOSENS
        ):
            for key in sorted({*was_held, *now_held}):
                pair = was_held.get(key), now_held.get(key)
                if pair[0] != pair[1]:
                    yield _differing(
                        f"{what}: {name} {key}", pair[0], pair[1], _direction(name, *pair)
                    )
        elif was_held != now_held:
            yield _differing(f"{what}: {name}", was_held, now_held, Direction.LOOSENS)


def _fields(held: Record | Mapping[str, str]) -> Mapping[str, object]:
    return dict(held) if isinstance(held, Mapping) else held.model_dump(mode="json")


# What is shown


def _unread(what: str, base: Gate, head: Gate, old: object, new: object) -> Difference:
    """A part that one of the two does not tell: what was changed in it is not known."""
    told = [
        "can be read"
        if part is not None
        else f"{NOT_READ}: {side.fault}"
        if side.fault
        else NOT_READ
        for side, part in ((base, old), (head, new))
    ]
    return _differing(what, told[0], told[1], Direction.LOOSENS)


def _differing(what: str, old: object, new: object, direction: Direction) -> Difference:
    return Difference(what=_short(what), old=_shown(old), new=_shown(new), direction=direction)


def _shown(value: object) -> str | None:
    match value:
        case None:
            return None
        case StrEnum():
            text = value.value
        case str():
            text = value
        case bool():
            text = str(value).lower()
        case float():
            text = f"{value:.6g}"
        case Record():
            text = value.model_dump_json()
        case _:
            text = json.dumps(value, default=str, ensure_ascii=False)
    return _short(text)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
