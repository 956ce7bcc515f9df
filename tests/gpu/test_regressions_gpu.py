"""Every regression of `workloads/regressions.py` on a real GPU: its metrics catch it, and no metric
is blamed without cause.

Each loop is blessed once and gated clean; then each of its regressions is gated. That is 6 runs a
loop and 3 a gate or more, of about 10 s on an H200: `-k eager` takes one loop with its 13
regressions, some 12 minutes, `-k eager-item` one regression. A line is printed for each gate, and a
table at the end, which REGRESSIONS_TABLE=FILE also writes as JSON after each gate.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from support.gpu import Gate, bless, gate, why_no_gate
from support.loops import WORKLOADS, load_regressions, named_first

from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.model.sample import Breakdown
from perfgate.store import Store

BLESSED_RUNS: Final = 6
RUNS: Final = 3
"""Asked for by number, so that a gate does not stop at the first risen count: clocks are then
judged as well."""
SLEPT: Final = (0.6, 1.4)
"""Share of a planted sleep by which kernel_ms must have risen: of 1 %, a repeat within 0.1 % is a
tenth."""
SHOWN_FROM: Final = 0.024
"""Share of kernel time from which stored runs of one occasion show a loss: what 10 runs said of
themselves on an H100. What is planted below it leaves the gate INCONCLUSIVE, and shut."""
SETTINGS: Final = """\
[tool.perfgate]
ab_run = "off"  # both of its sides would have the regression
"""


def why_not() -> str | None:
    """Say why no regression can be gated here, None if one can."""
    if (reason := why_no_gate()) is not None:
        return reason
    return None if importlib.util.find_spec("torch") else "no torch here: it is in the extra torch"


# Before the loops are imported, and torch with them.
if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

with pytest.MonkeyPatch.context() as _patch:
    regressions = load_regressions("regressions_of_gpu_tests", _patch)
LOOPS: Final = tuple(
    dict.fromkeys(regression.workload for regression in regressions.REGRESSIONS.values())
)
CASES: Final = [
    (loop, name)
    for loop in LOOPS
    for name in (
        regressions.NONE,
        *(
            regression.name
            for regression in regressions.REGRESSIONS.values()
            if regression.workload == loop
        ),
    )
]


@dataclass(frozen=True, kw_only=True)
class Gated(Gate):
    """What one gate came to."""

    loop: str
    regression: str
    wall_s: float
    is_first: bool = False
    """Whether it was made to be blessed."""
    before: Mapping[str, Any]
    """What the baseline says that its values are made of; empty where there is none."""
    now: Mapping[str, Any]
    """The same of this gate's runs, as a baseline would keep it."""
    planted_ms: float = 0.0
    """Of a planted sleep: what it was to add to each step."""

    @property
    def runs(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.workload["runs"])

    @property
    def changes(self) -> Mapping[str, tuple[float | None, float | None]]:
        """Every metric's value in the baseline and now."""
        return {row["metric"]: (row["baseline"], row["now"]) for row in self.verdict["metrics"]}

    @property
    def expected(self) -> tuple[int, str]:
        """Exit status and outcome."""
        if self.is_first:
            return 1, "NO_BASELINE"
        if self.regression == regressions.NONE:
            return 0, "PASSED"
        is_small = 0 < regressions.REGRESSIONS[self.regression].share < SHOWN_FROM
        return 1, "INCONCLUSIVE" if is_small else "REGRESSED"

    @property
    def problems(self) -> tuple[str, ...]:
        """In what it is not what was to be expected of what was planted."""
        if self.ended != self.expected:
            return (f"exit status and outcome {self.ended}, expected {self.expected}",)
        if self.regression == regressions.NONE:
            return ()
        _, outcome = self.expected
        regression = regressions.REGRESSIONS[self.regression]
        missed = [
            metric for metric in regression.caught_by if metric not in self.of_outcome(outcome)
        ]
        allowed = {*regression.caught_by, *regression.may_follow}
        # Of a median that is just not shown to be slower the mean may show it.
        allowed |= {"step_mean_ms"} if "step_ms" in allowed else set()
        blamed = [metric for metric in self.of_outcome("REGRESSED") if metric not in allowed]
        shown = [f"{metric} did not catch it" for metric in missed]
        shown += [f"{metric} is blamed without cause" for metric in blamed]
        first = next(iter((self.verdict.get("where") or {}).values()), "")
        if not named_first(first, regression.culprits):
            shown.append(
                f"the first line of the explanation does not name {regression.culprits} first: "
                f"{first!r}"
            )
        before, now = self.changes["kernel_ms"] if regression.share else (None, None)
        if before is not None and now is not None:
            found = (now - before) / self.planted_ms
            if not SLEPT[0] <= found <= SLEPT[1]:
                shown.append(
                    f"kernel_ms rose by {found:.2f} of the {self.planted_ms:.4f} ms that were "
                    f"planted"
                )
        return tuple(shown)

    def line(self) -> str:
        """The gate as a row of the table."""
        sizes = ", ".join(
            f"{metric} {_size(*self.changes[metric])}" for metric in self.of_outcome("REGRESSED")
        )
        marks = "".join(f"  << {problem}" for problem in self.problems)
        counted = f"{len(self.runs):>2} runs  {self.wall_s:5.0f} s"
        return (
            f"{self.loop:<9} {self.regression:<18} {self.ended[1]:<13} {counted}  "
            f"{sizes or '-'}{marks}"
        )

    def record(self) -> Mapping[str, object]:
        """The gate for REGRESSIONS_TABLE."""
        known = regressions.REGRESSIONS.get(self.regression)
        return {
            "loop": self.loop,
            "regression": self.regression,
            "expected": None if known is None else asdict(known),
            "exit_status": self.status,
            "outcome": self.ended[1],
            "regressed": self.of_outcome("REGRESSED"),
            "problems": self.problems,
            **{
                shown: self.verdict.get(shown)
                for shown in ("reason", "where", "classified", "advice", "metrics")
            },
            "planted_ms": self.planted_ms,
            "wall_s": round(self.wall_s, 1),
            "before": self.before,
            "now": self.now,
            "runs": self.runs,
        }


def _dumped(breakdown: Breakdown) -> Mapping[str, Any]:
    return breakdown.model_dump(mode="json", exclude_defaults=True)


def _size(before: float | None, now: float | None) -> str:
    if before is None or now is None:
        return "?"
    return f"{before:.4g} -> {now:.4g}" + (f" ({(now - before) / before:+.1%})" if before else "")


class Scratch:
    """A project with a copy of the loops, and what its gates came to."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.root = root
        self.say = say
        self.gates: list[Gated] = []
        self.machine: object = None
        self._baselines: dict[str, Gated | None] = {}
        (root / "workloads").mkdir()
        (root / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        for name in ("regressions.py", "conftest.py"):
            shutil.copy(WORKLOADS / name, root / "workloads")

    def blessed(self, loop: str) -> Gated:
        """The gate from which the loop's baseline was blessed; made once, and if it failed not
        again."""
        if loop not in self._baselines:
            self._baselines[loop] = None
            gated = self._gate(loop, regressions.NONE, runs=BLESSED_RUNS, is_first=True)
            self.say(f"{gated.line()}  {self._values(gated)}")
            assert gated.problems == ()
            bless(self.root, loop, "--reason", "the clean loop")
            self._baselines[loop] = gated
        baseline = self._baselines[loop]
        assert baseline is not None, f"{loop} has no baseline: see the first test of it"
        return baseline

    def gate(self, loop: str, regression: str) -> Gated:
        """Gate a loop with a regression planted against its baseline, and note what came of it."""
        baseline = self.blessed(loop)
        share = (
            regressions.REGRESSIONS[regression].share
            if regression in regressions.REGRESSIONS
            else 0.0
        )
        step_ms = median(run["values"]["step_ms"] for run in baseline.runs)
        gated = self._gate(loop, regression, runs=RUNS, planted_ms=share * step_ms)
        self.gates.append(gated)
        self.say(gated.line())
        self._write()
        return gated

    @cached_property
    def cycles_per_ms(self) -> float:
        """Clock cycles of this GPU at work, as `perfgate selftest` probes them: a sleep kernel
        timed by CUDA events."""
        found = self.root / "probe.json"
        command = [sys.executable, "-m", "perfgate.selftest.probe", str(found)]
        subprocess.run(command, cwd=self.root, check=True, timeout=120)
        probed = json.loads(found.read_text(encoding="utf-8"))
        return float(probed["cycles_per_ms"])

    def table(self) -> str:
        """All gates, a line each."""
        return "\n".join(gated.line() for gated in self.gates)

    def _gate(
        self,
        loop: str,
        regression: str,
        *,
        runs: int,
        planted_ms: float = 0.0,
        is_first: bool = False,
    ) -> Gated:
        env = {"REGRESSION": regression}
        if planted_ms:
            env["REGRESSION_CYCLES"] = str(round(planted_ms * self.cycles_per_ms))
        options = (f"--perfgate-runs={runs}", "-p", "no:cacheprovider")
        began = time.monotonic()
        made = gate(self.root, f"workloads/regressions.py::{loop}", *options, timeout_s=1100, **env)
        wall_s = time.monotonic() - began
        self.machine = made.document["machine"] or self.machine
        store = Store(self.root, "baselines")
        result = store.results.latest(loop)
        baseline = result and store.baselines.load(result.result.machine.slug, loop)
        return Gated(
            **vars(made),
            loop=loop,
            regression=regression,
            wall_s=wall_s,
            is_first=is_first,
            before=_dumped(baseline.breakdown) if baseline else {},
            now=_dumped(kept(breakdown_of(result.result.runs))) if result else {},
            planted_ms=planted_ms,
        )

    @staticmethod
    def _values(gated: Gated) -> str:
        """What the clean loop measured: the median of its runs, and for clocks half the way from
        least to most."""
        shown = []
        for metric in gated.runs[0]["values"] if gated.runs else ():
            values = [run["values"].get(metric, float("nan")) for run in gated.runs]
            spread = f" +-{(max(values) - min(values)) / 2:.2g}" if metric.endswith("_ms") else ""
            shown.append(f"{metric} {median(values):.4g}{spread}")
        return ", ".join(shown)

    def _write(self) -> None:
        if file := os.environ.get("REGRESSIONS_TABLE"):
            baselines = [gated.record() for gated in self._baselines.values() if gated is not None]
            gates = [gated.record() for gated in self.gates]
            document = {"machine": self.machine, "baselines": baselines, "gates": gates}
            Path(file).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def scratch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scratch]:
    """A project whose gates print while they go on, whatever pytest captures."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        assert capture is not None
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)  # noqa: T201  (what is measured here is what this is run for)

    project = Scratch(tmp_path_factory.mktemp("regressions"), say)
    yield project
    say(project.table())


@pytest.mark.parametrize(
    ("loop", "regression"), CASES, ids=[f"{loop}-{regression}" for loop, regression in CASES]
)
def test_a_regression_is_caught_by_its_metrics_alone_and_a_clean_loop_passes(
    scratch: Scratch, loop: str, regression: str
) -> None:
    assert scratch.gate(loop, regression).problems == ()
