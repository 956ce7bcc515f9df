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

    def gpu_models(self) -> frozenset[str]:
        """Return the models of its GPUs; none where they are not known."""
        return (
            self.gpus if self.machine is None else frozenset(gpu.name for gpu in self.machine.gpus)
        )

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
    before: LaunchFigures | None = None
    now: LaunchFigures | None = None
    no_before: Note | None = None
    """Why there are no figures of before; None where there are."""
    no_now: Note | None = None


class KernelProbes(Record):
    """All kernels that were looked at, those that moved most first."""

    tool: str
    """`ncu 2025.3.1`."""
    before: str
    """Which code: `0123456789ab`."""
    now: str
    probes: tuple[KernelProbe, ...]
    notes: Notes = ()
