"""What a change may not touch unseen: all that decides about a project's gate, value by value.

Whatever cannot be said to make the gate stricter counts as loosening it.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import Any, Final

from perfgate.model.baseline import Baseline
from perfgate.model.loosening import Difference, Direction
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import Declared

LONGEST: Final = 200
"""Characters of a value that are shown."""
PARTS: Final = ("settings", "pytest", "workloads", "baselines")
"""What can be read whole or not at all."""
_MORE: Final = frozenset({"anchor_budget", "timeout_s", "warmup", "budget", "held", "anchor"})
"""Of these a larger value lets more through, and none most."""
_LESS: Final = frozenset({"runs", "max_runs", "time_budget_s", "steps", "occasions"})
_OF_PYTEST_ALONE: Final = (
    *("asyncio_*", "cache_dir", "console_output_style", "doctest_*", "filterwarnings", "junit_*"),
    *("log_*", "markers", "minversion", "tmp_path_*", "verbosity_*"),
)
"""Options of pytest that neither choose workloads nor reach perfgate."""
_FOLLOWS: Final = {
    *("format", "workload", "digest", "code", "source", "breakdown", "has_options", "blessing"),
    *("occasions", "anchor", "calibration", "held", "code_files"),
}
"""Fields of a baseline that are compared by what they hold, or follow from others."""

CODE: Final = "code"
"""The name of what is known of a thing that is compared as a whole."""
UNREADABLE: Final = {CODE: "cannot be read"}
"""What is known of a baseline that is damaged."""

Values = Mapping[str, Any]
"""What is known of one thing, by name, as JSON has it."""


@dataclass(frozen=True, kw_only=True)
class GateValues:
    """One state of a project, as far as it decides about its own gate."""

    things: dict[str, Values] = field(default_factory=dict)
    """By what each is called: `setting`, `pytest`, `workload mlp`, `conftest.py`."""
    unread: dict[str, str] = field(default_factory=dict)
    """By part, why it cannot be read."""


def differences(base: GateValues, head: GateValues) -> tuple[Difference, ...]:
    """All that differs, what loosens the gate first."""
    unread = [part for part in PARTS if part in base.unread or part in head.unread]
    found = [
        Difference(
            what=part,
            old=_text(base.unread.get(part)),
            new=_text(head.unread.get(part)),
            direction=Direction.LOOSENS,
        )
        for part in unread
    ]
    kinds = tuple(part.removesuffix("s") for part in unread)
    for what in sorted({*base.things, *head.things}):
        if what.partition(" ")[0] not in kinds:
            found += _compared(what, base.things.get(what), head.things.get(what))
    order = list(Direction)
    return tuple(sorted(found, key=lambda one: order.index(one.direction)))


def _compared(what: str, old: Values | None, new: Values | None) -> Iterator[Difference]:
    if old is None or new is None or (CODE in old) != (CODE in new):
        # A workload or a baseline more is one more that must pass; of new code nobody knows.
        is_new = old is None and CODE not in (new or {})
        was, now = (None if one is None else one.get(CODE, "there") for one in (old, new))
        direction = Direction.TIGHTENS if is_new else Direction.LOOSENS
        yield Difference(what=_short(what), old=was, new=now, direction=direction)
        return
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        loosens = _loosens(name, was, now) if was != now else None
        if loosens is not None:
            shown = f"{what} {name}" if what in {"setting", "pytest"} else f"{what}: {name}"
            yield Difference(
                what=_short(shown),
                old=_text(was),
                new=_text(now),
                direction=Direction.LOOSENS if loosens else Direction.TIGHTENS,
            )


def _loosens(name: str, old: Any, new: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Whether another value lets more through; None where others say what it does."""
    rule = name.partition(" ")[0]
    if rule in _MORE:
        return _number(new) > _number(old)
    if rule in _LESS:
        return _number(new) < _number(old)
    if rule in {*Metric}:
        # Runs whose median or whose highest is higher let more through.
        return not new or (bool(old) and (median(new) > median(old) or max(new) > max(old)))
    match rule:
        case "inconclusive" | "new" | "loosened":
            return bool(old == "fail")
        case "ab_run":
            return bool(old != "off")
        case "skipped":
            return new is not None
        case "calibration":
            return any(new[key] > old[key] for key in old)
        case "commits":
            # What was measured anew was so at another one, and its values say what that does.
            return True if old["step_ms"] == new["step_ms"] else None
        case _:
            return True


def _number(value: float | None) -> float:
    return float("inf") if value is None else value


def _text(value: Any) -> str | None:  # noqa: ANN401 - JSON
    match value:
        case None | str():
            text = value
        case float():
            text = f"{value:.6g}"
        case [float(), *_]:
            text = f"{median(value):.5g}, at most {max(value):.5g}"
        case _:
            text = json.dumps(value, default=str, ensure_ascii=False)
    return None if text is None else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


# What is known of each thing


def setting_values(settings: Settings) -> Values:
    """What `[tool.perfgate]` sets."""
    values = settings.model_dump(mode="json", exclude={"budgets"})
    return values | _budgets(settings.budgets)


def _budgets(budgets: Mapping[Metric, float]) -> dict[str, float | None]:
    """Budgets as they count: one that is not set is the metric's own, and a count without one is
    exact."""
    found: dict[str, float | None] = {}
    for metric, spec in METRICS.items():
        default = None if spec.time is None else spec.time.budget
        if spec.kind is Kind.COUNT:
            default = 0.0
        found[f"budget {metric}"] = budgets.get(metric, default)
    return found


def pytest_values(options: Mapping[str, object]) -> Values:
    """What pytest's configuration file sets, as far as it may reach a gate."""
    return {
        name: value
        for name, value in options.items()
        if not any(fnmatchcase(name, pattern) for pattern in _OF_PYTEST_ALONE)
    }


def code_values(path: str, text: str) -> Values:
    """A conftest or a workflow; of Python comments and form decide nothing."""
    if path.endswith(".py"):
        with suppress(SyntaxError, ValueError, RecursionError):
            text = ast.unparse(ast.parse(text))
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    return {CODE: f"{len(text.splitlines())} lines ({digest[:12]})"}


def workload_values(declared: Declared) -> Values:
    """What a workload's declaration says of how it is measured."""
    workload = declared.workload
    names = {"steps", "warmup", "timeout_s", "pass_env", "cwd"}
    parameters = workload.comparable_parameters()
    return {
        **{f"parameter {name}": parameters[name] for name in parameters.keys() - names},
        **workload.model_dump(mode="json", include=names),
        **_budgets(workload.budgets),
        "skipped": declared.skipped,
    }


def baseline_values(baseline: Baseline) -> Values:
    """What a baseline holds."""
    values = baseline.model_dump(mode="json", exclude=_FOLLOWS)
    for metric, spec in METRICS.items():
        values[metric] = sorted(baseline.values(metric))
        values[f"held {metric}"] = baseline.held.get(metric, 0.0)
        if spec.time is not None:
            spread = baseline.calibration.get(metric)
            values[f"calibration {metric}"] = {
                "run_sd": spec.time.prior_sd if spread is None else spread.run_sd,
                "occasion_sd": spec.time.occasion_sd if spread is None else spread.occasion_sd,
            }
    shas = {one.commit.sha for one in baseline.occasions if one.commit is not None}
    return values | {
        "runs": len(baseline.runs),
        "occasions": len(baseline.occasions),
        "anchor": None if baseline.anchor is None else baseline.anchor.step_ms,
        "commits": {"shas": sorted(shas), "step_ms": baseline.values(Metric.STEP_MS)},
    }
