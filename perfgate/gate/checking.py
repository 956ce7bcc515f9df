"""The gate of one workload: screen, duet and further looks, until it is settled or nothing is left to spend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from statistics import median

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.ranks import told_ranks
from perfgate.explain.sides import side_of_runs
from perfgate.explain.where import where
from perfgate.gate.caveats import asides, caveats, shared, unjudged
from perfgate.gate.comparable import other_steps, parts_of, verdict_of, why_incomparable, why_no_screen
from perfgate.gate.spending import known_noisy
from perfgate.gate.terms import (
    NO_DUET_BY,
    NOT_MEASURED_BY,
    Affords,
    Checked,
    Duel,
    Expectation,
    OpenDuel,
    Pair,
    Policy,
    Series,
)
from perfgate.judge.compare import Prior
from perfgate.judge.creep import FEWEST_TO_SHOW, beyond_anchor, creep
from perfgate.judge.forecast import smallest_loss
from perfgate.judge.judge import Judgement, judge
from perfgate.judge.pace import pace_changed
from perfgate.judge.pairing import beside
from perfgate.judge.remarks import clock_moved, clock_rise, longer_by_clock
from perfgate.judge.rows import Terms
from perfgate.judge.stages import (
    DUET_PLAN,
    INTERLEAVED_PLAN,
    INTERLEAVED_SDS,
    NOISY,
    SCREEN_PLAN,
    STORED_PLAN,
    Plan,
)
from perfgate.judge.tell import tell_creep
from perfgate.judge.words import bless_command, listed, milliseconds, percent, plural
from perfgate.model.baseline import FEWEST_RUNS, Baseline, BlessedRun, Blessing, Occasion
from perfgate.model.errors import (
    PerfgateError,
    RevisionMissing,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.side import Side
from perfgate.model.verdict import Creep, Duet, MetricVerdict, Verdict

BUSY_CORES = 1.1
"""Steps that keep more CPU cores than this busy do several things at once."""
SLOWER_ON_ONE_CORE = 1.1
"""And lose by it, where one takes so many times as long on the one core of an interleaved duet as alone.

Launch-bound loops are faster there (`benchmarks/moods`: 17 %), since their threads take turns anyway.
"""
_FOLLOW_CLOCK = (Metric.STEP_MS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower SM clock; copies and the host do not."""
_INTERLEAVED_PRIORS = {metric: Prior(sd=sd) for metric, sd in INTERLEAVED_SDS.items()}


def check(
    expectation: Expectation,
    policy: Policy,
    series: Series,
    duet: OpenDuel | None = None,
    *,
    interleaved: OpenDuel | None = None,
    against: bool = False,
    own_environment: bool = False,
    affords: Affords = lambda _runs, _seconds: True,
) -> Checked:
    """Measure one workload as often as its judgement needs, and say what came of it.

    Without `against`, runs are screened against the stored baseline; what that does not settle is settled by a duet,
    and where there is none, or it cannot be had, by more runs against the stored baseline. With `against`, the duet
    is all there is, and no stored baseline is needed. Of the two forms of a duet, `interleaved` is taken where the
    screen's runs differ so much that `duet` could not show the budget, or where it is the only one. `own_environment`
    says that the other commit brings its own packages: without, both sides would run with today's torch and CUDA.

    Errors of `NOT_MEASURED_BY` become the outcome NOT_MEASURED, with their whole message.
    """
    checking = _Checking(expectation, policy, series, affords, own_environment=own_environment)
    forms = _Forms(alternate=duet, interleaved=interleaved)
    try:
        if against:
            return checking.against(forms)
        if expectation.trouble is not None:
            return Checked(verdict=verdict_of(expectation, Outcome.INCOMPARABLE, *parts_of(expectation.trouble)))
        alone = why_incomparable(expectation)
        if alone is not None or expectation.baseline is None:
            assert alone is not None
            return checking.alone(alone)
        return checking.against_stored(expectation.baseline, forms)
    except _OtherSteps as other:
        return checking.of_other_steps(other)
    except _Ended as ended:
        return checking.checked(ended.verdict)


class _Ended(Exception):
    """A run came to nothing, and with it the gate of this workload."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.reason)


class _OtherSteps(Exception):
    """What serves as a step is not what served as one on the other side."""

    def __init__(self, differs: str, *, stored: bool) -> None:
        self.differs = differs
        self.stored = stored
        """Whether it is the stored baseline's, or those of its commit, that differ: a bless ends that."""
        super().__init__(differs)


class _NoDuet(Exception):
    """There is no other side to compare with."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Forms:
    """The forms of a duet that are at hand."""

    alternate: OpenDuel | None
    interleaved: OpenDuel | None

    def in_order(self, screened: Judgement | None = None, *, noisy: bool = False) -> tuple[tuple[OpenDuel, Plan], ...]:
        """The forms to try, the one that suits what is known of how much runs differ first."""
        alternate = () if self.alternate is None else ((self.alternate, DUET_PLAN),)
        interleaved = () if self.interleaved is None else ((self.interleaved, INTERLEAVED_PLAN),)
        if not noisy and (screened is None or not _too_noisy(screened)):
            return alternate or interleaved
        return (*interleaved, *alternate)


class _Checking:
    """The gate of one workload while it goes on: the runs so far, and what may still be spent."""

    def __init__(
        self, expectation: Expectation, policy: Policy, series: Series, affords: Affords, *, own_environment: bool
    ) -> None:
        self._expectation = expectation
        self._policy = policy
        self._series = series
        self._affords = affords
        self._own_environment = own_environment
        self._remarks: list[str] = []
        self._ended_by_time = False
        self.runs: list[Run] = []
        self.reference_runs: list[Run] = []
        self.interleaved_runs: list[Run] = []

    # Where nothing can be compared

    def alone(self, verdict: Verdict) -> Checked:
        """Measure what a baseline needs, and show it."""
        wanted = max(self._policy.new_runs, len(self.runs))
        while len(self.runs) < wanted:
            self._take(self._run(wanted))
        few = f"A baseline needs {FEWEST_RUNS} runs; gates of the same code are joined. "
        enough = len(self.runs) >= FEWEST_RUNS
        changed = pace_changed(self.runs)
        measured = {
            "remarks": (*verdict.remarks, *(() if changed is None else (changed,))),
            "runs": len(self.runs),
            "metrics": _shown(self._expectation.baseline, self.runs),
            "next_step": verdict.next_step if enough else f"{few}{verdict.next_step}",
        }
        return self.checked(verdict.model_copy(update=measured))

    def of_other_steps(self, other: _OtherSteps) -> Checked:
        """Say that its steps are not those of the other side, after measuring what a bless takes where one helps."""
        workload = self._expectation.workload
        correct = f"Correct the pattern of the steps ({workload.source})"
        bless = f", or bless what they are now: {bless_command(workload.id)}"
        advice = f"{correct}{bless}" if other.stored else f"{correct}, so that both sides have the same."
        verdict = verdict_of(self._expectation, Outcome.INCOMPARABLE, other.differs, advice, runs=self.runs)
        if not other.stored:
            return self.checked(verdict)
        try:
            return self.alone(verdict)
        except _Ended as ended:
            return self.checked(ended.verdict)

    # Against the stored baseline

    def against_stored(self, baseline: Baseline, forms: _Forms) -> Checked:
        """Screen against the stored baseline, and go on with a duet or with further looks where that does not do."""
        if not forms.in_order():
            return self._looks(baseline)
        skipped = why_no_screen(baseline, self._series.machine)
        noisy = False
        if forms.interleaved is not None and self._policy.stops_early and skipped is None:
            # Not where a user asked for runs: those of an interleaved duet cannot be blessed.
            noisy = known_noisy(self._expectation, self._policy)
            skipped = "its blessed runs differ by more than what it is held to" if noisy else None
        screened: Judgement | None = None
        if skipped is None:
            told = self._look(baseline, SCREEN_PLAN)
            if isinstance(told, Checked):
                return told
            moved = clock_moved(baseline, self.runs)
            final = told.verdict.outcome is not Outcome.INCONCLUSIVE or not _open(told.verdict)
            if final and (moved is None or _count_rose(told.verdict)):
                return self._final(told.verdict, baseline)
            updated = self._other_packages(baseline)
            if updated is not None and moved is None:
                self._remarks.append(
                    f"No duet: {updated}: both sides would run with that, and none would show its loss"
                )
                return self._looks(baseline)
            skipped = f"{moved}, so the stored times are not what they would be now" if moved is not None else None
            screened = told
        for form, plan in forms.in_order(screened, noisy=noisy):
            try:
                return self._duel(form, plan, baseline, screened, why=skipped)
            except _NoDuet as none:
                self._remarks.append(f"No {'interleaved ' if plan.in_pairs else ''}duet: {none.why}")
        return self._looks(baseline)

    def _looks(self, baseline: Baseline) -> Checked:
        """Settle it against the stored baseline alone."""
        told = self._look(baseline, STORED_PLAN)
        if isinstance(told, Checked):
            return told
        verdict, rise = self._beyond_clock(told.verdict, baseline), clock_rise(baseline, self.runs)
        opens = verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)
        # Both follow the clock, and whichever is held closer must not lose unseen.
        of_clocks = (row.budget for row in verdict.metrics if row.metric in _FOLLOW_CLOCK)
        if not opens or rise <= min((budget for budget in of_clocks if budget is not None), default=0.0):
            return self._final(verdict, baseline)
        hidden = {
            "outcome": Outcome.INCONCLUSIVE,
            "reason": f"nothing is slower than when it was blessed, but {clock_moved(baseline, self.runs)}: a loss of "
            f"up to {percent(rise)} % would not show.",
            "next_step": self._at_this_clock(),
        }
        return self._final(verdict.model_copy(update=hidden), baseline)

    def _beyond_clock(self, verdict: Verdict, baseline: Baseline) -> Verdict:
        """Leave open what a lower SM clock alone would make of the code that was blessed."""
        longer = longer_by_clock(baseline, self.runs)
        lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
        by_clock = [row for row in lost if row.metric in _FOLLOW_CLOCK and row.low is not None and row.low <= longer]
        if not longer or not lost or by_clock != lost:
            return verdict
        open_rows = tuple(
            row.model_copy(update={"outcome": Outcome.INCONCLUSIVE}) if row in lost else row for row in verdict.metrics
        )
        return verdict.model_copy(
            update={
                "outcome": Outcome.INCONCLUSIVE,
                "reason": f"{clock_moved(baseline, self.runs)}, which alone can make a step {percent(longer)} % "
                f"longer: {listed([row.metric for row in lost])} {'is' if len(lost) == 1 else 'are'} not shown to have "
                "lost more than that.",
                "next_step": self._at_this_clock(),
                "metrics": open_rows,
                "loss_level": None,
                "loss_by": None,
            }
        )

    def _at_this_clock(self) -> str:
        return (
            "Let the baseline's commit be run again beside it (a clone with its history, duet not off), "
            f"or bless at this clock: {bless_command(self._expectation.workload.id)}"
        )

    def _look(self, baseline: Baseline, plan: Plan) -> Judgement | Checked:
        """Measure and judge by a plan of looks until it is settled; a whole `Checked` where no plan can go on."""
        most = min(plan.most_runs, self._policy.max_runs)
        terms = self._terms(plan, max_runs=max(most, self._policy.runs))
        wanted = max(self._policy.runs, len(self.runs))
        self._refuse_other_steps(baseline)
        judgement = judge(baseline, self.runs, terms) if len(self.runs) >= wanted else None
        if judgement is not None:
            wanted = max(judgement.wanted_runs, self._wanted_by_anchor(judgement, baseline, plan, most=most), wanted)
        while judgement is None or len(self.runs) < wanted:
            if len(self.runs) >= self._policy.runs and not self._may_spend(wanted - len(self.runs)):
                break
            self._take(self._run(wanted))
            if (differs := _other_processes(baseline, self.runs[-1])) is not None:
                bless = bless_command(self._expectation.workload.id)
                advice = f"Look for a process that ended early or took no step. If it is meant, bless it: {bless}"
                return self.alone(verdict_of(self._expectation, Outcome.INCOMPARABLE, differs, advice))
            self._refuse_other_steps(baseline)
            judgement = judge(baseline, self.runs, terms)
            if len(self.runs) >= wanted:
                if self._stored_times_hold(baseline, plan) and self._has_crept(baseline):
                    return self._final(judgement.verdict, baseline)
                by_anchor = self._wanted_by_anchor(judgement, baseline, plan, most=most)
                wanted = max(judgement.wanted_runs, by_anchor, len(self.runs))
            elif self._policy.stops_early and judgement.settled and _exact_count_rose(judgement.verdict):
                verdict = _without_doubtful_clocks(judgement.verdict, len(self.runs))
                return self._final(verdict, baseline)
        assert judgement is not None  # at least one run was made, and judged
        return judgement

    def _refuse_other_steps(self, baseline: Baseline) -> None:
        for run in self.runs:
            if (differs := other_steps(baseline.runs, run, whose="the baseline")) is not None:
                raise _OtherSteps(differs, stored=True)

    def _stored_times_hold(self, baseline: Baseline, plan: Plan) -> bool:
        """Before a duet, stored times count only where the screen does."""
        return plan is not SCREEN_PLAN or clock_moved(baseline, self.runs) is None

    def _wanted_by_anchor(self, judgement: Judgement, baseline: Baseline, plan: Plan, *, most: int) -> int:
        """How many runs it takes to know whether small losses have added up, where these would open the gate.

        As with a clock, fewer than three never shut it; but where they lie beyond, they do not open it either.
        """
        opens = judgement.verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)
        if not opens or len(self.runs) >= FEWEST_TO_SHOW or not self._stored_times_hold(baseline, plan):
            return len(self.runs)
        beyond = beyond_anchor(baseline, _steps(self.runs), anchor_budget=self._policy.anchor_budget)
        return len(self.runs) if beyond is None else min(FEWEST_TO_SHOW, most)

    # Against another commit

    def against(self, forms: _Forms) -> Checked:
        """Compare with another commit, in a duet and nothing else: interleaved first where stored runs differ much."""
        last: _NoDuet | None = None
        for form, plan in forms.in_order(noisy=known_noisy(self._expectation, self._policy)):
            if last is not None:
                self._remarks.append(f"No interleaved duet: {last.why}")
            try:
                return self._duel(form, plan, None, None, why=None)
            except _NoDuet as none:
                last = none
                if isinstance(none.__cause__, RevisionMissing):
                    break
        assert last is not None  # there is a form, and it came to nothing
        reason, next_step = parts_of(last.why, subject=f"{self._expectation.workload.id}: ")
        if plan.in_pairs and not next_step:
            next_step = 'Compare runs that are alone: duet = "alternate" in [tool.perfgate].'
        if isinstance(last.__cause__, RevisionMissing):
            return self.alone(verdict_of(self._expectation, Outcome.NO_BASELINE, reason, next_step))
        return self.checked(verdict_of(self._expectation, Outcome.NOT_MEASURED, reason, next_step, runs=self.runs))

    def _duel(
        self, form: OpenDuel, plan: Plan, stored: Baseline | None, screened: Judgement | None, *, why: str | None
    ) -> Checked:
        """Make pairs until the plan of the duet is settled.

        `why` tells why the screen does not count, where it does not.

        Raises:
            _NoDuet: the other commit cannot be run, or what may be spent does not suffice for its first look.
        """
        if not self._may_spend(2 * plan.fewest_to_fail + plan.alone_runs):
            raise _NoDuet(
                f"the time budget leaves no room for {plan.fewest_to_fail} pairs.\nAllow more: --perfgate-time-budget"
            )
        try:
            with form() as duel:
                most = self._affordable_pairs(plan)
                before = len(self.runs) + plan.alone_runs
                alone = self._alone(duel, stored) if plan.in_pairs else None
                screen_runs = len(self.runs)
                terms = self._terms(plan, max_runs=most, priors=_priors(plan, screened))
                against = duel.revision if stored is None else None
                terms = replace(terms, runs_before=before, against=against, stored=stored)
                judgement, reference = self._pairs(duel, terms, stored, alone)
        except (*NO_DUET_BY, _NoDuet) as impossible:
            # Nothing that is judged by other means is of these.
            self.reference_runs.clear()
            self.interleaved_runs.clear()
            if isinstance(impossible, _NoDuet):
                raise
            raise _NoDuet(str(impossible)) from impossible
        if why is not None:
            self._remarks.append(f"Straight to the duet: {why}")
        if plan.in_pairs:
            self._remarks.append(
                "Interleaved: both sides took turns of a few steps on one CPU core, where steps take another time than "
                "alone; what is judged is how each turn differs from the other side's before and after it"
            )
        told = Duet(
            revision=duel.revision,
            commit=duel.commit,
            pairs=len(self.reference_runs),
            screen_runs=screen_runs,
        )
        return self._final(judgement.verdict, stored, reference=reference, duet=told)

    def _affordable_pairs(self, plan: Plan) -> int:
        """How many pairs there may be.

        Raises:
            _NoDuet: fewer than the duet's first look takes.
        """
        first, before = plan.fewest_to_fail, len(self.runs) + plan.alone_runs
        most = min((self._policy.max_runs - before) // 2, plan.most_runs)
        if most < first:
            needed = before + 2 * first
            raise _NoDuet(
                f"{plural(self._policy.max_runs, 'run')} {'leaves' if self._policy.max_runs == 1 else 'leave'} no room "
                f"for {first} pairs.\n"
                f"Allow {needed}: --perfgate-max-runs={needed}"
            )
        return most

    def _alone(self, duel: Duel, stored: Baseline | None) -> _Alone:
        """What a step takes on either side where it is alone and may use all cores.

        Raises:
            _NoDuet: the other commit cannot be run.
        """
        pair = self._guarded(INTERLEAVED_PLAN, duel.alone)
        self._take(pair.candidate)
        _check_reference(pair.reference, self._expectation, stored, pair.candidate)
        _check_steps([pair.reference], [pair.candidate], stored)
        then = _steps([pair.reference])
        if stored is not None and why_no_screen(stored, self._series.machine) is None:
            then = (*then, *stored.values(Metric.STEP_MS))
        return _Alone(then=then, now=_steps(self.runs), cores=pair.cores)

    def _pairs(
        self, duel: Duel, terms: Terms, stored: Baseline | None, alone: _Alone | None
    ) -> tuple[Judgement, Baseline]:
        plan = terms.plan
        own = self.interleaved_runs if plan.in_pairs else self.runs
        before = len(own)
        wanted = plan.fewest_to_fail
        while True:
            index = len(self.reference_runs)
            pair = self._guarded(plan, partial(duel.pair, index, wanted))
            self.reference_runs.append(pair.reference)
            self._take(pair.candidate, own)
            _check_reference(pair.reference, self._expectation, stored, pair.candidate)
            _check_steps(self.reference_runs, own[before:], stored)
            _check_alike(self.reference_runs)
            if alone is not None:
                alone.check(_steps(self.reference_runs), _steps(own))
            reference = _as_baseline(self._expectation, self.reference_runs, stored)
            candidates = own[before:]
            if plan.in_pairs:
                candidates = [beside(*pair) for pair in zip(self.reference_runs, candidates, strict=True)]
            judgement = judge(reference, candidates, terms)
            if len(self.reference_runs) >= wanted:
                wanted = max(judgement.wanted_runs, len(self.reference_runs))
                more = wanted - len(self.reference_runs)
                if not more or not self._may_spend(2 * more):
                    return judgement, reference
            elif self._policy.stops_early and judgement.settled and _exact_count_rose(judgement.verdict):
                verdict = _without_doubtful_clocks(judgement.verdict, len(self.reference_runs))
                return replace(judgement, verdict=verdict), reference

    # One run

    def _run(self, planned: int) -> Run:
        try:
            return self._series.measure(len(self.runs), planned)
        except NOT_MEASURED_BY as failed:
            raise _Ended(self._not_measured(failed)) from failed

    def _guarded(self, plan: Plan, make: Callable[[], Pair]) -> Pair:
        """Make a pair, unless the candidate's run came to nothing."""
        try:
            return make()
        except NOT_MEASURED_BY as failed:
            if plan.in_pairs:
                # Perhaps more steps, or both at once, are what it does not stand: alone it will show.
                raise _NoDuet(str(failed)) from failed
            raise _Ended(self._not_measured(failed)) from failed

    def _not_measured(self, failed: PerfgateError) -> Verdict:
        told = parts_of(str(failed), subject=f"{self._expectation.workload.id}: ")
        return verdict_of(self._expectation, Outcome.NOT_MEASURED, *told, runs=self.runs)

    def _take(self, run: Run, own: list[Run] | None = None) -> None:
        """Count a run in, unless it does not count; `own` are the runs that it belongs with."""
        (self.runs if own is None else own).append(run)
        made = [*self.runs, *self.interleaved_runs]
        complaints = (*run.conditions.complaints, *run.complaints, *_processes_lost(made))
        if complaints:
            reason = f"run {len(made)} does not count: {'; '.join(complaints)}."
            advice = "Free the GPU or let it cool" if run.conditions.complaints else "Remove the cause"
            raise _Ended(verdict_of(self._expectation, Outcome.INVALID, reason, f"{advice}, and run again.", runs=made))

    # What may be spent, and what came of it

    def _may_spend(self, runs: int) -> bool:
        """Whether so many more runs are within the budget of time, going by those made so far."""
        made = [run.wall_s for run in (*self.runs, *self.interleaved_runs, *self.reference_runs)]
        if self._affords(runs, median(made) if made else 0.0):
            return True
        if not self._ended_by_time:
            self._ended_by_time = True
            self._remarks.append(f"The time budget ended this after {len(made)} runs")
        return False

    def _terms(self, plan: Plan, *, max_runs: int, priors: Mapping[Metric, Prior] | None = None) -> Terms:
        return Terms(
            budgets=self._policy.budgets,
            max_runs=max_runs,
            plan=plan,
            priors=priors or {},
            workloads=self._policy.workloads,
        )

    def _final(
        self,
        verdict: Verdict,
        stored: Baseline | None,
        *,
        reference: Baseline | None = None,
        duet: Duet | None = None,
    ) -> Checked:
        """The judge's verdict with where it happened, how far it has come, and what else differs."""
        compared = reference or stored
        assert compared is not None
        crept = None if stored is None else self._crept(stored, reference)
        circumstances = () if stored is None else _circumstances(stored, self._series.machine)
        before, now = Side.of_baseline("", compared), side_of_runs("", self.interleaved_runs or self.runs)
        made_up = attributions(before.breakdown, now.breakdown, verdict.metrics)
        # As the verdict's rows say: without the runs that were set aside.
        values = now.medians() | {row.metric: row.now for row in verdict.metrics if row.now is not None}
        verdict = verdict.model_copy(
            update={
                "where": where(made_up),
                "attributions": made_up,
                "classified": classify(values, now.breakdown),
                "advice": ()
                if verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)
                else new_advice(
                    advise(before.medians(), before.breakdown),
                    advise(values, now.breakdown),
                ),
                "remarks": (*verdict.remarks, *self._remarks, *circumstances),
                "runs": len(self.runs) + len(self.interleaved_runs),
                "duet": duet,
                "creep": crept,
            }
        )
        if duet is not None and stored is not None and verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED):
            shift = self._shift(stored, compared)
            verdict = verdict.model_copy(update={"reason": f"{verdict.reason}{shift}"})
        if verdict.outcome is Outcome.INCONCLUSIVE and self._ended_by_time:
            verdict = verdict.model_copy(update={"next_step": "Allow more time: --perfgate-time-budget"})
        if stored is not None and verdict.outcome is not Outcome.REGRESSED and (crept is None or not crept.shown):
            unknown = self._creep_unknown(stored, reference, crept)
            remarks = verdict.remarks if unknown is None else (*verdict.remarks, unknown)
            verdict = verdict.model_copy(update={"remarks": remarks})
        if crept is not None and crept.shown and verdict.outcome is not Outcome.REGRESSED:
            reason, next_step = tell_creep(crept, verdict.workload, runs=len(self.runs))
            verdict = verdict.model_copy(
                update={"outcome": Outcome.REGRESSED, "reason": reason, "next_step": next_step}
            )
        return self.checked(verdict)

    def _other_packages(self, baseline: Baseline) -> str | None:
        """Say that both sides of a duet run with another torch or CUDA than the baseline's; None where none is known.

        Nor where the other commit brings its own.
        """
        if self._own_environment:
            return None
        then, now = baseline.machine, self._series.machine
        for name, before, after in (("torch", then.torch, now.torch), ("CUDA", then.cuda, now.cuda)):
            if before is not None and after is not None and before != after:
                return f"the baseline was measured with {name} {before}, this with {name} {after}"
        return None

    def _shift(self, stored: Baseline, reference: Baseline) -> str:
        """Say what a duet does not show: that both sides are slower than when it was blessed, or newer packages."""
        told = ""
        if (updated := self._other_packages(stored)) is not None:
            told = f" But {updated}: both sides ran with that, and what it costs is not in this."
        then, now = stored.values(Metric.STEP_MS), reference.values(Metric.STEP_MS)
        spec = METRICS[Metric.STEP_MS].clock
        # On one core a step takes another time than when it was blessed.
        if self.interleaved_runs or not then or not now or spec is None or median(then) <= 0:
            return told
        lost = median(now) / median(then) - 1
        if lost > self._policy.budgets.get(Metric.STEP_MS, spec.budget):
            told += (
                f" But the baseline's commit itself takes {percent(lost)} % longer now than when it was blessed: the "
                "machine or its software has become slower, not the code."
            )
        return told

    def _crept(self, baseline: Baseline, reference: Baseline | None = None) -> Creep | None:
        """How far it has come from the anchor, where that can be told."""
        now, budget = self._to_anchor(baseline, reference), self._policy.anchor_budget
        terms = self._terms(STORED_PLAN, max_runs=self._policy.max_runs)
        found = creep(baseline, now, terms, anchor_budget=budget)
        longer = 0.0 if reference is not None else longer_by_clock(baseline, self.runs)
        if found is None or not found.shown or not longer:
            return found
        at_its_clock = creep(baseline, [value / (1 + longer) for value in now], terms, anchor_budget=budget)
        return found if at_its_clock is not None and at_its_clock.shown else None

    def _to_anchor(self, baseline: Baseline, reference: Baseline | None) -> tuple[float, ...]:
        """What is held against the anchor, ms of each run: after a duet its ratio, put on top of the stored times.

        Of an interleaved one each pair has its own: what a step takes on one core says nothing beside stored times.
        """
        then = baseline.values(Metric.STEP_MS)
        if reference is not None and then and self.interleaved_runs:
            pairs = zip(self.reference_runs, self.interleaved_runs, strict=True)
            sides = [(there.value(Metric.STEP_MS), beside(there, run).value(Metric.STEP_MS)) for there, run in pairs]
            return tuple(median(then) / there * here for there, here in sides if there and here is not None)
        now = _steps(self.runs)
        there = () if reference is None else reference.values(Metric.STEP_MS)
        if then and there and median(there) > 0:
            now = tuple(median(then) / median(there) * value for value in now[-len(there) :])
        return now

    def _creep_unknown(self, baseline: Baseline, reference: Baseline | None, crept: Creep | None) -> str | None:
        """Say that a step is beyond the anchor's budget where its runs cannot show whether that is so."""
        now, budget = self._to_anchor(baseline, reference), self._policy.anchor_budget
        if crept is not None and crept.change >= budget:
            low, high = percent(crept.low), percent(crept.high)
            return (
                f"Small losses have added up to {percent(crept.change)} % above the best step_ms ever blessed "
                f"({milliseconds(crept.path[0].step_ms)} ms), which does not show yet that it is more than the budget "
                f"of {percent(budget)} % ({low} to {high})"
            )
        above = beyond_anchor(baseline, now, anchor_budget=budget)
        if above is None or baseline.anchor is None or crept is not None:
            return None
        if len(now) < FEWEST_TO_SHOW:
            why = f"it takes {FEWEST_TO_SHOW}"
        elif reference is None and longer_by_clock(baseline, self.runs):
            why = f"{clock_moved(baseline, self.runs)}"
        else:
            why = "there are steps that took no time at all"
        return (
            f"Whether small losses have added up is not known: by {plural(len(now), 'run')} step_ms is "
            f"{percent(above)} % above the best ever blessed ({milliseconds(baseline.anchor.step_ms)} ms), "
            f"budget {percent(budget)} %, and {why}"
        )

    def _has_crept(self, baseline: Baseline) -> bool:
        crept = self._crept(baseline)
        return crept is not None and crept.shown

    def checked(self, verdict: Verdict) -> Checked:
        """A verdict with all runs that were made for it, and what is to be known of them."""
        made = self.interleaved_runs or self.runs
        # Of INVALID ones the last is the one that does not count, and its remarks say why.
        remarks = shared(made[-1:] if verdict.outcome is Outcome.INVALID else made)
        # Of a machine without a GPU nobody expects them.
        lacking = unjudged(verdict, made) if self._series.machine.gpus else ()
        told = {
            "ranks": told_ranks(made),
            "caveats": (*lacking, *caveats(remarks)),
            "remarks": (*verdict.remarks, *asides(remarks)),
        }
        return Checked(
            verdict=verdict.model_copy(update=told),
            runs=tuple(self.runs),
            reference_runs=tuple(self.reference_runs),
            interleaved_runs=tuple(self.interleaved_runs),
        )


def _priors(plan: Plan, screened: Judgement | None) -> Mapping[Metric, Prior]:
    """What is known of the run-to-run SD when the pairs of a duet begin."""
    if plan.in_pairs:
        return _INTERLEAVED_PRIORS
    return {} if screened is None else screened.priors


@dataclass(frozen=True, kw_only=True, slots=True)
class _Alone:
    """What a step of the other side and of the candidate takes alone, ms, by runs, and how many cores it keeps busy."""

    then: tuple[float, ...]
    now: tuple[float, ...]
    cores: tuple[float | None, float | None]

    def check(self, reference: Sequence[float], candidate: Sequence[float]) -> None:
        """Hold the steps of an interleaved duet, on one core, against these.

        What several cores do at once is lost there on both sides, and a change that loses it would not show.

        Raises:
            _NoDuet: a side that keeps several busy is slower there than in any of its runs alone.
        """
        sides = (("the other commit", self.then, reference), ("the candidate", self.now, candidate))
        for (whose, alone, there), cores in zip(sides, self.cores, strict=True):
            if cores is None or cores <= BUSY_CORES or not alone or not there:
                continue
            if median(there) > SLOWER_ON_ONE_CORE * max(alone):
                raise _NoDuet(
                    f"a step of {whose} takes {milliseconds(median(there))} ms on one CPU core and at most "
                    f"{milliseconds(max(alone))} ms alone, where it keeps {cores:.2g} busy: it does several things at "
                    "once, and losing that would not show"
                )


def _steps(runs: Sequence[Run]) -> tuple[float, ...]:
    return tuple(value for run in runs if (value := run.value(Metric.STEP_MS)) is not None)


def _too_noisy(screened: Judgement) -> bool:
    """Whether runs differ so much that alternate pairs could not show a loss near the budget."""
    return any(
        row.outcome is Outcome.INCONCLUSIVE
        and (prior := screened.priors.get(row.metric)) is not None
        and (budget := row.budget) is not None
        and smallest_loss(
            row.metric,
            baseline_runs=DUET_PLAN.most_runs,
            candidate_runs=DUET_PLAN.most_runs,
            occasions=1,
            run_sd=prior.sd,
            occasion_sd=0.0,
            budget=budget,
            plan=DUET_PLAN,
            prior_df=prior.df,
        )
        > NOISY * budget
        for row in screened.verdict.metrics
    )


def _open(verdict: Verdict) -> bool:
    """Whether there is a clock, or a count that varies, that a duet or more runs could settle."""
    return any(
        row.outcome is Outcome.INCONCLUSIVE and (METRICS[row.metric].kind is Kind.CLOCK or not row.exact)
        for row in verdict.metrics
    )


def _check_reference(reference: Run, expectation: Expectation, stored: Baseline | None, candidate: Run) -> None:
    """Hold a run of the other commit against what is known of it.

    Raises:
        _Ended: the machine was not fit for it.
        _NoDuet: it is no measurement, or not of what was blessed.
    """
    if reference.conditions.complaints:
        reason = f"a run of the other commit does not count: {'; '.join(reference.conditions.complaints)}."
        advice = "Free the GPU or let it cool, and run again."
        raise _Ended(verdict_of(expectation, Outcome.INVALID, reason, advice))
    if reference.complaints:
        told = (*reference.complaints, *caveats(reference.remarks))
        raise _NoDuet(f"a run of the other commit does not count: {'; '.join(told)}")
    if stored is not None and (differs := other_steps(stored.runs, reference, whose="the baseline")) is not None:
        raise _NoDuet(f"in the baseline's commit, {differs}")
    if len(reference.processes) != len(candidate.processes):
        there, here = _processes(len(reference.processes)), _processes(len(candidate.processes))
        raise _NoDuet(f"steps of {there} were found in the other commit, of {here} in the candidate")
    if stored is None:
        return
    if (differs := _other_processes(stored, reference)) is not None:
        raise _NoDuet(f"in the baseline's commit, {differs}")
    measured = reference.measured()
    lacking = [
        metric for metric, spec in METRICS.items() if spec.gated and stored.values(metric) and metric not in measured
    ]
    if lacking:
        # Were the candidate's runs to lack it as well, nobody would miss it.
        raise _NoDuet(f"the baseline gates {listed(list(lacking))}, which a run of its commit did not measure here")
    for metric, value in reference.counts().items():
        blessed = stored.values(metric)
        spread = max(blessed) - min(blessed) if blessed else 0.0
        if blessed and not min(blessed) - spread <= value <= max(blessed) + spread:
            raise _NoDuet(
                f"the baseline's commit does not do what it did when it was blessed: {metric} was "
                f"{median(blessed):g} and is {value:g}. Something beside the code has changed"
            )


def _check_steps(references: Sequence[Run], candidates: Sequence[Run], stored: Baseline | None) -> None:
    """Hold the names of the candidate's steps against those of all runs of the other commit, and of what is blessed.

    Raises:
        _OtherSteps: they are other steps.
    """
    then = [BlessedRun.of(run) for run in references]
    if stored is not None and all(run.step_names for run in stored.runs):
        then += stored.runs
    for run in candidates:
        if (differs := other_steps(then, run, whose="the other commit")) is not None:
            raise _OtherSteps(differs, stored=stored is not None)


def _check_alike(references: Sequence[Run]) -> None:
    """Refuse runs of the other commit that did not all measure what is gated: what some lack would be gated by none.

    Raises:
        _NoDuet: a metric is in some of them only.
    """
    gated = [metric for metric, spec in METRICS.items() if spec.gated]
    some = [one for one in gated if len({one in run.measured() for run in references}) > 1]
    if some:
        raise _NoDuet(
            f"of the other commit's runs, some measured {listed(list(some))} and some did not.\n"
            "Run it again. Why a run lacks one, its capture says: perfgate inspect CAPTURE"
        )


def _as_baseline(expectation: Expectation, runs: Sequence[Run], stored: Baseline | None) -> Baseline:
    """The runs of the other commit as what the judge compares with: one occasion, the candidate's own."""
    occasion = Occasion(measured_at=runs[0].started_at, runs=tuple(map(BlessedRun.of, runs)))
    if stored is not None:
        return stored.model_copy(update={"occasions": (occasion,), "breakdown": breakdown_of(runs)})
    workload = expectation.workload
    return Baseline(
        workload=workload.id,
        digest=workload.digest(),
        parameters=workload.comparable_parameters(),
        has_options=workload.options is not None,
        machine=expectation.machine,
        occasions=(occasion,),
        blessing=Blessing(by="nobody", at=datetime.now(UTC), reason="the other side of a duet"),
        breakdown=breakdown_of(runs),
    )


def _count_rose(verdict: Verdict) -> bool:
    """Whether a count shuts the gate."""
    return any(row.outcome is Outcome.REGRESSED and METRICS[row.metric].kind is Kind.COUNT for row in verdict.metrics)


def _exact_count_rose(verdict: Verdict) -> bool:
    """Whether an exact count shuts the gate: the one thing that ends a gate between its looks.

    A clock's word between looks is not taken, neither for nor against, nor that of a count that varies: each further
    look costs error.
    """
    return any(row.outcome is Outcome.REGRESSED and row.exact for row in verdict.metrics)


def _without_doubtful_clocks(verdict: Verdict, runs: int) -> Verdict:
    """Show, and not judge, the clocks that the count which ended the gate left no runs for."""
    reason = f"not judged: a count settled the gate after {runs} runs"
    rows = tuple(
        row.model_copy(update={"outcome": None, "reason": reason}) if row.outcome is Outcome.INCONCLUSIVE else row
        for row in verdict.metrics
    )
    return verdict.model_copy(update={"metrics": rows})


def _shown(baseline: Baseline | None, runs: Sequence[Run]) -> tuple[MetricVerdict, ...]:
    """What was measured, as medians beside the baseline's, where nothing can be judged."""
    measured = [run.measured() for run in runs]
    return tuple(
        MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=median(baseline.values(metric)) if baseline is not None and baseline.values(metric) else None,
            now=median(values[metric] for values in measured),
        )
        for metric in METRICS
        if measured and all(metric in values for values in measured)
    )


def _circumstances(baseline: Baseline, machine: Machine) -> tuple[str, ...]:
    """What differs from the baseline's circumstances without forbidding the comparison, as sentences."""
    told: list[str] = []
    then = {gpu.uuid for gpu in baseline.machine.gpus}
    if then != {gpu.uuid for gpu in machine.gpus}:
        told.append("Another GPU of the same model than the baseline's: its clocks and memory may differ a little.")
    for name, before, now in (
        ("driver", baseline.machine.driver, machine.driver),
        ("torch", baseline.machine.torch, machine.torch),
        ("CUDA", baseline.machine.cuda, machine.cuda),
    ):
        if before != now:
            told.append(
                f"The baseline was measured with {name} {before or 'unknown'}, this with {name} {now or 'unknown'}."
            )
    return tuple(told)


def _processes_lost(runs: Sequence[Run]) -> tuple[str, ...]:
    """A rank that took no step leaves no trace in the values, which are those of the worst of the others."""
    first, now = len(runs[0].processes), len(runs[-1].processes)
    return () if first == now else (f"steps of {_processes(now)} were found, of {_processes(first)} in run 1",)


def _other_processes(baseline: Baseline, run: Run) -> str | None:
    """Say that other processes took the steps than when it was blessed, as a sentence; None where that is not known."""
    blessed = sorted({known for known in (run.processes for run in baseline.runs) if known is not None})
    now = len(run.processes)
    if not blessed or now in blessed:
        return None
    then = " or ".join(str(number) for number in blessed)
    return f"steps of {_processes(now)} were found, of {then} in the baseline. Their values are not comparable."


def _processes(number: int) -> str:
    return f"{number} process" if number == 1 else f"{number} processes"
