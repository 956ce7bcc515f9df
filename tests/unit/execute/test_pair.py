"""Two runs at once: their turns, what becomes of one when the other fails, and which of them is to
blame."""

from __future__ import annotations

import signal
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from support import records
from support.runs import (
    ReferenceFailed,
    command,
    context_of,
    ended,
    pair_in_blocks,
    worker_report,
)

from perfgate.execute import run
from perfgate.execute.captures import OfCapture
from perfgate.execute.run import Measured
from perfgate.model.errors import (
    CaptureUnreadable,
    ConfigInvalid,
    NsysCrashed,
    PerfgateError,
    StoreFailed,
    WorkloadFailed,
)
from perfgate.model.machine import Conditions
from perfgate.model.note import Note, note
from perfgate.model.order import RUN_COOKIE, Blocks, Ending, Order, WorkerReport
from perfgate.model.reports import Reports
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import Captured, ProfileOutcome, ProfileSpec

SOON_S = 10.0
Tick = Callable[[], None]
Side = Literal["reference", "candidate"]


def finished(**more: object) -> WorkerReport:
    return WorkerReport.model_validate({"ending": Ending.FINISHED, "pid": 7, **more})


@dataclass
class InPlaceOfNsys:
    """What the runs of either side are to do, in place of nsys."""

    folder: Path
    acts: dict[str, Callable[[Tick], WorkerReport | None]]
    """By side: what its run does, which may raise, and reports."""
    specs: dict[str, ProfileSpec] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    called_off: list[str] = field(default_factory=list)
    steps: Mapping[str, int] = field(default_factory=dict)
    """By side: the steps in its capture."""
    crashing: tuple[Side, ...] = ()
    """The sides whose nsys breaks down."""
    unreadable: Side | None = None
    """The side whose capture cannot be read."""

    def profile(
        self,
        _tool: NsysTool,
        spec: ProfileSpec,
        *,
        on_tick: Tick | None = None,
    ) -> ProfileOutcome:
        """Stand in for nsys."""
        side = spec.folder.parent.name
        assert on_tick is not None
        self.specs[side] = spec
        self.orders[side] = Order.model_validate_json(
            (spec.folder.parent / "order.json").read_text()
        )
        for fifo in self.fifos(side):
            assert stat.S_ISFIFO(fifo.stat().st_mode)
        if side in self.crashing:
            time.sleep(0.3)  # the other side has begun
            return replace(ended(exit_status=None, captures=()), crashed=True)
        try:
            shown = self.acts[side](on_tick)
        except BaseException as failed:
            if type(failed).__name__ == "_CalledOff":
                self.called_off.append(side)
            raise
        if shown is not None:
            (spec.folder.parent / "worker-report.json").write_text(shown.model_dump_json())
        status = 0 if shown is not None and shown.ending is Ending.FINISHED else 1
        return ended(
            exit_status=status,
            captures=(Captured(rep=spec.folder / "c.nsys-rep", sqlite=spec.folder),),
        )

    def fifos(self, side: str) -> tuple[Path, ...]:
        """The two of a side's order."""
        blocks = self.orders[side].blocks
        assert blocks is not None
        return Path(blocks.own), Path(blocks.other)

    def pair(
        self,
        workload: Workload | None = None,
        *,
        begins: Side = "reference",
    ) -> tuple[Measured, Measured]:
        """Run the pair."""
        return pair_in_blocks(
            (context_of(self.folder, WHO="reference"), context_of(self.folder, WHO="candidate")),
            (workload or records.workload()).model_copy(update={"steps": 20}),
            (self.folder / "reference", self.folder / "candidate"),
            candidate_begins=begins == "candidate",
            block_steps=5,
            core=3,
        )


def ends_well(_tick: Tick) -> WorkerReport:
    return finished(core=3)


def raises(_tick: Tick) -> WorkerReport:
    return worker_report(Ending.RAISED, note("raised", what="ValueError: no data"))


def is_abandoned(_tick: Tick) -> WorkerReport:
    return worker_report(Ending.ABANDONED, note("other-side-ended"))


def goes_on(tick: Tick) -> NoReturn:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        time.sleep(0.01)
        tick()
    raise AssertionError("it was not called off")


def after(seconds: float, then: Callable[[Tick], WorkerReport]) -> Callable[[Tick], WorkerReport]:
    def act(tick: Tick) -> WorkerReport:
        time.sleep(seconds)
        return then(tick)

    return act


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InPlaceOfNsys:
    made = InPlaceOfNsys(tmp_path, {"reference": ends_well, "candidate": ends_well})

    def measured(
        _workload: object, _tool: object, _captured: object, raw: Path, tick: Tick
    ) -> OfCapture:
        tick()
        if raw.parent.name == made.unreadable:
            raise CaptureUnreadable("quoted", text="c.sqlite: is empty")
        process = records.process(steps=made.steps.get(raw.parent.name, 20))
        return OfCapture(processes=(process,), missing=None, notes=(), reports=Reports())

    monkeypatch.setattr(run, "profile", made.profile)
    monkeypatch.setattr(run, "measure_capture", measured)
    monkeypatch.setattr(run, "keep_exports", lambda *_: None)
    return made


@pytest.mark.parametrize("begins", ["reference", "candidate"])
def test_each_side_is_ordered_to_take_blocks_of_the_same_steps(
    sides: InPlaceOfNsys, begins: Side
) -> None:
    sides.steps = {"candidate": 19}
    workload = records.workload(steps=4).model_copy(update={"timeout_s": 50.0})
    reference, candidate = sides.pair(workload, begins=begins)
    names = ("reference", "candidate")
    for own, other in (names, names[::-1]):
        assert (sides.orders[own].steps, sides.orders[own].warmup) == (20, 10)
        assert sides.specs[own].env["WHO"] == own
        assert sides.orders[own].blocks == Blocks(
            begins=own == begins,
            own=str(sides.folder / own / "turn"),
            other=str(sides.folder / other / "turn"),
            steps=5,
            core=3,
            patience_s=50.0,
        )
        kept = sorted(path.name for path in (sides.folder / own).iterdir())
        assert kept == ["order.json", "worker-report.json"]
    # Or each were a neighbour to the other.
    assert len({spec.env[RUN_COOKIE].split(":")[0] for spec in sides.specs.values()}) == 1
    assert (reference.run.folder, candidate.run.folder) == names
    assert candidate.run.conditions == Conditions()
    assert reference.run.invalid == ()
    (lost,) = candidate.run.invalid
    assert (lost.fields["found"], lost.fields["steps"]) == (19, 20)


@pytest.mark.parametrize(("core", "codes"), [(3, []), (None, ["core-left"])])
def test_a_process_that_left_its_core_is_noted(
    sides: InPlaceOfNsys, core: int | None, codes: list[str]
) -> None:
    sides.acts["candidate"] = lambda _: finished(core=core)
    reference, candidate = sides.pair()
    assert [one.code for one in reference.run.notes] == []
    assert [one.code for one in candidate.run.notes] == codes


def test_a_command_cannot_take_turns(sides: InPlaceOfNsys) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        sides.pair(command("python", "train.py"))
    assert refused.value.code == "command-in-blocks"
    assert list(sides.folder.iterdir()) == []


def why_of(error: PerfgateError | ReferenceFailed) -> str:
    """The code of what went wrong, on whichever side."""
    failed = error.error if isinstance(error, ReferenceFailed) else error
    why = failed.fields.get("why")
    return why.code if isinstance(why, Note) else failed.code


def failed_by(sides: InPlaceOfNsys) -> PerfgateError | ReferenceFailed:
    began = time.monotonic()
    with pytest.raises((PerfgateError, ReferenceFailed)) as caught:
        sides.pair()
    assert time.monotonic() - began < SOON_S / 2
    assert not list(sides.folder.rglob("turn"))
    assert isinstance(caught.value, PerfgateError | ReferenceFailed)
    return caught.value


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_side_that_fails_calls_the_other_off(sides: InPlaceOfNsys, side: Side) -> None:
    sides.acts = {"reference": goes_on, "candidate": goes_on, side: after(0.3, raises)}
    error = failed_by(sides)
    assert isinstance(error, ReferenceFailed if side == "reference" else WorkloadFailed)
    assert why_of(error) == "raised"
    assert sides.called_off == ["candidate" if side == "reference" else "reference"]


def test_a_side_that_was_left_alone_waits_for_the_reason(sides: InPlaceOfNsys) -> None:
    sides.acts = {"reference": after(0.3, raises), "candidate": is_abandoned}
    assert isinstance(failed_by(sides), ReferenceFailed)
    for path in ("reference", "candidate"):
        (sides.folder / path).rename(sides.folder / f"{path}-before")
    sides.acts = {"reference": is_abandoned, "candidate": after(0.3, raises)}
    assert isinstance(failed_by(sides), WorkloadFailed)
    assert sides.called_off == []


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_side_whose_nsys_breaks_down_is_not_blamed_for_it(
    sides: InPlaceOfNsys, side: Side
) -> None:
    sides.acts = {"reference": goes_on, "candidate": goes_on}
    sides.crashing = (side,)
    assert isinstance(failed_by(sides), NsysCrashed)
    assert sides.called_off == ["candidate" if side == "reference" else "reference"]


@pytest.mark.parametrize(
    ("reference", "candidate", "blamed"),
    [
        (is_abandoned, is_abandoned, WorkloadFailed),
        (ends_well, is_abandoned, WorkloadFailed),
        (is_abandoned, ends_well, ReferenceFailed),
    ],
)
def test_a_side_that_was_left_alone_without_a_reason_says_so(
    sides: InPlaceOfNsys,
    reference: Callable[[Tick], WorkerReport],
    candidate: Callable[[Tick], WorkerReport],
    blamed: type,
) -> None:
    sides.acts = {"reference": reference, "candidate": candidate}
    error = failed_by(sides)
    assert isinstance(error, blamed)
    assert why_of(error) == "other-side-ended"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_capture_that_cannot_be_read_is_reported_by_its_side(
    sides: InPlaceOfNsys, side: Side
) -> None:
    sides.unreadable = side
    error = failed_by(sides)
    assert isinstance(error, ReferenceFailed if side == "reference" else CaptureUnreadable)
    assert why_of(error) == "quoted"


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_folder_that_cannot_be_made_is_reported_by_its_side(
    sides: InPlaceOfNsys, side: Side
) -> None:
    (sides.folder / side).mkdir()
    error = failed_by(sides)
    assert isinstance(error, ReferenceFailed if side == "reference" else StoreFailed)
    assert why_of(error) == "run-folder-not-written"
    assert sides.specs == {}


class Bug(Exception):
    """No failure that perfgate knows."""


def is_a_bug(_tick: Tick) -> NoReturn:
    raise Bug


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_bug_stays_one_and_ends_the_other_side(sides: InPlaceOfNsys, side: Side) -> None:
    sides.acts = {"reference": goes_on, "candidate": goes_on, side: after(0.3, is_a_bug)}
    with pytest.raises(Bug):
        sides.pair()
    assert len(sides.called_off) == 1
    assert side not in sides.called_off


def ctrl_c() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_ctrl_c_calls_both_sides_off(sides: InPlaceOfNsys) -> None:
    def interrupted(tick: Tick) -> NoReturn:
        time.sleep(0.3)  # the main thread waits
        ctrl_c()
        goes_on(tick)

    sides.acts = {"reference": goes_on, "candidate": interrupted}
    with pytest.raises(KeyboardInterrupt):
        sides.pair()
    assert sorted(sides.called_off) == ["candidate", "reference"]
    assert not list(sides.folder.rglob("turn"))
