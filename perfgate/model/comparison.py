"""Two sides that are compared without judging, what their differences are made of, and what Nsight
Compute says of the kernels that moved."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from perfgate.model.baseline import Baseline
from perfgate.model.diagnosis import Advice, Attribution, Classified
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, NoteOrText, Notes, quoted
from perfgate.model.record import Record
from perfgate.model.reports import RuleChanges
from perfgate.model.sample import Breakdown
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.words.numbers import listed


class Side(Record):
    """One of two things to be compared: its values run by run, what they are made of, and where
    they come from."""

    label: NoteOrText
    values: Mapping[Metric, tuple[float, ...]]
    """One value a run; of several processes the worst."""
    machine: Machine | None = None
    parameters: Mapping[str, str] | None = None
    breakdown: Breakdown = Breakdown()
    gpus: frozenset[str] = frozenset()
    """Of a capture: the models of the GPUs that its steps used, so far as it names them."""
    missing: Mapping[str, NoteOrText] = {}
    """Of a capture: what it lacks and why, as `Timeline.missing` says."""
    absent: Mapping[Metric, NoteOrText] = {}
    """Why a metric could not be measured, from the first process that says so; empty of a baseline.
    """
    invalid: tuple[NoteOrText, ...] = ()
    """Of a capture: why a gate would not count it as a run; each once."""

    @classmethod
    def of_baseline(cls, label: Note | str, baseline: Baseline) -> Side:
        """Take a baseline."""
        return cls(
            label=quoted(label),
            values={metric: baseline.values(metric) for metric in METRICS},
            machine=baseline.machine,
            parameters=baseline.parameters,
            breakdown=baseline.breakdown,
        )

    def unlike(self, other: Side) -> list[tuple[str, str, str]]:
        """Return what makes the two incomparable as far as it is known: what it is, as it is here,
        and as it is there."""
        before, now = self._facts(other), other._facts(self)
        same = (name for name in before if name in now)
        return [(name, before[name], now[name]) for name in same if before[name] != now[name]]

    def _facts(self, other: Side) -> dict[str, str]:
        """What must be the same of two, by name, as this one has it."""
        machine = self.machine
        models = self.gpus if machine is None else {gpu.name for gpu in machine.gpus}
        known = {"GPU": listed(sorted(models))} if models else {}
        if machine is not None and other.machine is not None:
            known = {
                "GPU": machine.gpu_name,
                "nsys": machine.nsys or "none",
                "nsys options": " ".join(machine.nsys_options) or "none",
            }
        if self.parameters is not None and other.parameters is not None:
            for name in sorted({*self.parameters, *other.parameters}):
                known[name] = self.parameters.get(name, "not set")
        return known

    def medians(self) -> dict[Metric, float]:
        """Return the median over the runs of every metric that there is."""
        return {metric: median(values) for metric in METRICS if (values := self.values.get(metric))}


class ComparedSides(Record):
    """Two sides and how b's medians differ from a's; judged by nobody."""

    a: Side
    b: Side
    rows: tuple[MetricVerdict, ...]
    warnings: Notes = ()
    """What makes the two unlike, besides what they say of themselves."""


class Explanation(ComparedSides):
    """The same with what each difference is made of, and what is known of b besides."""

    attributions: tuple[Attribution, ...] = ()
    """Those of one metric together."""
    verdict: Verdict | None = None
    """Of what the rows are, where a gate has judged them."""
    ranks: Notes = ()
    """Of several processes: how far they lie apart."""
    classified: Classified | None = None
    """What b is bound by."""
    advice: tuple[Advice, ...] = ()
    """What usually helps b."""
    rules: RuleChanges | None = None
    """What nsys's expert rules find in b; None where they were not asked."""


class MovedKernel(Record):
    """A kernel whose time per step differs between two sides."""

    name: str
    """Its full name where that is known; else what a baseline keeps of it."""
    change_ms: float
    """Of its time per step."""
    notes: Notes = ()
    """That it is new or gone, its launches, its time a launch."""
    per_step_before: float = 0.0
    """Launches; 0 where it is not known to have been there."""
    per_step_now: float = 0.0


class LaunchFigures(Record):
    """One launch of one kernel; what ncu could not collect is None, never zero."""

    kernel: str
    """The mangled name."""
    device: int
    grid: str
    """As ncu writes it: `(64, 64, 1)`."""
    block: str
    duration_us: float
    compute_percent: float | None = None
    """Throughput of the multiprocessors, of the most that they could sustain."""
    memory_percent: float | None = None
    """Of all memory together: caches, DRAM, and the ways between."""
    dram_percent: float | None = None
    occupancy_percent: float | None = None
    """Warps that were active on a multiprocessor, of the most that could be."""
    occupancy_limit_percent: float | None = None
    """What registers, shared memory and block size would have allowed."""
    registers: float | None = None
    """A thread."""
    waves: float | None = None
    """Blocks, in units of what the GPU runs at once."""
    sm_clock_mhz: float | None = None
    """During the launch."""


class KernelProbe(Record):
    """One kernel, before and now."""

    moved: MovedKernel
    before: LaunchFigures | Note
    """Or why there are no figures, as of now."""
    now: LaunchFigures | Note


class KernelProbes(Record):
    """All kernels that were looked at, those that moved most first."""

    tool: str
    """`ncu 2025.3.1`."""
    before: str
    """Which code: `0123456789ab`."""
    now: str
    probes: tuple[KernelProbe, ...]
    notes: Notes = ()
