"""Every way in which nsys's rules fail, played by a stand-in; what is read of their CSVs, and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest
from pydantic import ValidationError

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown, PerfgateError, StoreFailed
from perfgate.model.findings import Finding, Findings, RuleName
from perfgate.profilers.nsys import profile, rules
from perfgate.profilers.nsys.rules import (
    NEW_NAMES,
    OLD_NAMES,
    analyze_command,
    parse_rule,
    rule_names,
    run_rules,
)
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.system.process import Finished

RECENT = NsysVersion(2024, 2, 3)

GAPS = "Row#,Duration (ns),Start (ns),PID,Device ID,Context ID\n"
CALLS = "Duration (ns),Start (ns),PID,TID,API Name\n"
COPIES = (
    "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (B),PID,Device ID,Context ID,Green Context ID,Stream ID,"
    "API Name\n"
)
COPIES_2022 = COPIES.replace("Green Context ID,", "")
MEMSETS = COPIES.replace("Src Kind,Dst Kind", "Memory Kind")
UTILISATION = "Row#,In-Use (%),Duration (ns),Start (ns),PID,Device ID,Context ID\n"

RERUN = (
    "Let perfgate apply the rules itself, or write them with: "
    "LC_ALL=C nsys analyze --format csv:mem=B --timeunit nsec --rule RULE"
)
AGAIN = "Delete the file and write it again; if the disk is full, free some space first"


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_MEMCPY_SYNC])
@pytest.mark.parametrize(
    ("header", "green"), [(COPIES, "3,"), (COPIES, ","), (COPIES, "None,"), (COPIES_2022, "")]
)
def test_copies_are_read_with_green_contexts_or_without(
    rule: RuleName, header: str, green: str
) -> None:
    text = f"{header}436219,150102143,Pageable,Device Static,8388608,548,0,1,{green}7,cudaMemcpyAsync_v3020\n"
    assert parse_rule(text, rule=rule, source="a.csv") == (
        Finding(
            rule=rule,
            start_ns=150_102_143,
            duration_ns=436_219,
            pid=548,
            device=0,
            api="cudaMemcpyAsync_v3020",
            bytes=8_388_608,
            source="Pageable",
            target="Device Static",
        ),
    )


@pytest.mark.parametrize("unsaid", ["", "None"])
def test_a_memory_kind_that_nsys_does_not_know_is_none(unsaid: str) -> None:
    text = f"{MEMSETS}40,-7,{unsaid},64,548,1,2,,7,cudaMemset_v3020\n"
    assert parse_rule(text, rule=RuleName.CUDA_MEMSET_SYNC, source="a.csv") == (
        Finding(
            rule=RuleName.CUDA_MEMSET_SYNC,
            start_ns=-7,
            duration_ns=40,
            pid=548,
            device=1,
            api="cudaMemset_v3020",
            bytes=64,
        ),
    )


def test_calls_gaps_and_utilisation_are_read_in_nsyss_order() -> None:
    calls = f"{CALLS}5,9,548,576,cudaStreamSynchronize_v3020\n3,1,548,548,cudaDeviceSynchronize_ptsz_v7000\n"
    assert parse_rule(calls, rule=RuleName.CUDA_API_SYNC, source="a.csv") == (
        Finding(
            rule=RuleName.CUDA_API_SYNC,
            start_ns=9,
            duration_ns=5,
            pid=548,
            tid=576,
            api="cudaStreamSynchronize_v3020",
        ),
        Finding(
            rule=RuleName.CUDA_API_SYNC,
            start_ns=1,
            duration_ns=3,
            pid=548,
            tid=548,
            api="cudaDeviceSynchronize_ptsz_v7000",
        ),
    )
    assert parse_rule(f"{GAPS}1,30,100,548,0,1\n", rule=RuleName.GPU_GAPS, source="a.csv") == (
        Finding(rule=RuleName.GPU_GAPS, start_ns=100, duration_ns=30, pid=548, device=0),
    )
    utilisation = f"{UTILISATION}1,0.0,40,100,548,0,1\n2,49.9,40,60,548,0,1\n"
    assert [
        row.in_use_percent
        for row in parse_rule(utilisation, rule=RuleName.GPU_TIME_UTIL, source="a.csv")
    ] == [
        0.0,
        49.9,
    ]


KNOWN_GAPS = "Row#,Duration (ns),Start (ns),PID,Device ID,Context ID (nsys 2022.4 and newer)"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        pytest.param(
            "",
            CaptureUnreadable,
            "a.csv: gpu_gaps is empty. nsys leaves an empty file where a rule found nothing, was skipped or failed.\n"
            "Look for SKIPPED or ERROR in the output of nsys analyze",
            id="empty",
        ),
        pytest.param(
            GAPS,
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: it has a header and no rows.\n{AGAIN}",
            id="header only",
        ),
        pytest.param(
            GAPS[:-1],
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: its last line is not complete.\n{AGAIN}",
            id="header without its end",
        ),
        pytest.param(
            f"{GAPS}1,30,100,548,0,1\n2,20,9",
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: its last line is not complete.\n{AGAIN}",
            id="cut in a row",
        ),
        pytest.param(
            f"{GAPS}1,30,100,548,0,1\n2,20,9\n",
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: line 3 is no row of it: '2,20,9'.\n{AGAIN}",
            id="a short row",
        ),
        pytest.param(
            f"{GAPS}1,30,100,548,0,1\n\n2,20,900,548,0,1\n",
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: line 3 is no row of it: ''.\n{AGAIN}",
            id="a blank line",
        ),
        pytest.param(
            f"{GAPS}1,30.5,100,548,0,1\n",
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: line 2 is no row of it: '1,30.5,100,548,0,1'.\n{AGAIN}",
            id="no whole number",
        ),
        pytest.param(
            f"{GAPS}1,30,,548,0,1\n",
            CaptureUnreadable,
            f"a.csv: gpu_gaps is truncated or damaged: line 2 is no row of it: '1,30,,548,0,1'.\n{AGAIN}",
            id="no start",
        ),
        pytest.param(
            f'{GAPS}1,"30,5",100,548,0,1\n',
            CaptureUnreadable,
            'a.csv: gpu_gaps has numbers in another locale\'s notation in line 2: 1,"30,5",100,548,0,1. '
            f"A comma could part thousands or decimals, so perfgate reads plain numbers only.\n{RERUN}",
            id="another locale",
        ),
        pytest.param(
            GAPS.replace("(ns)", "(ms)") + "1,0.0030,0.0100,548,0,1\n",
            LayoutUnknown,
            "a.csv: gpu_gaps is in other units: Row#,Duration (ms),Start (ms),PID,Device ID,Context ID. "
            f"perfgate reads {KNOWN_GAPS}.\n{RERUN}",
            id="other units",
        ),
        pytest.param(
            "Row#,Duration:dur_ns,Start:ts_ns,PID,Device ID,Context ID,_Global ID,_API\n1,30,100,548,0,1,9,cuda\n",
            LayoutUnknown,
            "a.csv: gpu_gaps has the raw columns of a rule's script that was run by itself: "
            "Row#,Duration:dur_ns,Start:ts_ns,PID,Device ID,Context ID,_Global ID,_API. "
            f"perfgate reads {KNOWN_GAPS}.\n{RERUN}",
            id="raw columns",
        ),
        pytest.param(
            GAPS.replace("\n", ",Cause\n") + "1,30,100,548,0,1,none\n",
            LayoutUnknown,
            "a.csv: gpu_gaps has columns that perfgate does not know: "
            "Row#,Duration (ns),Start (ns),PID,Device ID,Context ID,Cause. "
            f"Known are {KNOWN_GAPS}.\n{RERUN}. If nsys itself wrote this, perfgate must learn its version: "
            "please report it",
            id="a new column",
        ),
        pytest.param(
            "There were no problems detected\n",
            LayoutUnknown,
            "a.csv: gpu_gaps has columns that perfgate does not know: There were no problems detected. "
            f"Known are {KNOWN_GAPS}.\n{RERUN}. If nsys itself wrote this, perfgate must learn its version: "
            "please report it",
            id="no CSV",
        ),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    text: str, kind: type[PerfgateError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_rule(text, rule=RuleName.GPU_GAPS, source="a.csv")
    assert str(caught.value) == message


def test_sizes_in_megabytes_are_refused() -> None:
    text = (
        COPIES.replace("(B)", "(MB)")
        + "436219,150102143,Pageable,Device,8.389,548,0,1,,7,cudaMemcpyAsync_v3020\n"
    )
    with pytest.raises(LayoutUnknown, match="cuda_memcpy_async is in other units: Duration"):
        parse_rule(text, rule=RuleName.CUDA_MEMCPY_ASYNC, source="a.csv")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (RuleName.GPU_GAPS, f"{GAPS}1,30,100,548,0,1\n2,20,900,548,0,1\n3,40,500,548,0,1\n"),
        (
            RuleName.GPU_TIME_UTIL,
            f"{UTILISATION}1,2.0,9,1,5,0,1\n2,1.0,9,1,5,0,1\n3,4.0,9,1,5,0,1\n",
        ),
    ],
)
def test_a_cut_that_does_not_keep_the_longest_is_refused(
    monkeypatch: pytest.MonkeyPatch, rule: RuleName, text: str
) -> None:
    assert len(parse_rule(text, rule=rule, source="a.csv")) == 3
    monkeypatch.setattr(rules, "MOST_ROWS", 2)
    with pytest.raises(CaptureUnreadable) as caught:
        parse_rule(text, rule=rule, source="a.csv")
    assert str(caught.value) == (
        f"a.csv: {rule} has more than 2 findings, and the longest do not come first. Where not all can be read, those "
        "that matter most are.\nCapture fewer steps, or look at all of them: nsys analyze --rule=NAME:rows=-1"
    )


# --- asking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (NsysVersion(2022, 4, 2), (OLD_NAMES,)),
        (NsysVersion(2022, 5), (NEW_NAMES, OLD_NAMES)),
        (NsysVersion(2023, 3), (NEW_NAMES, OLD_NAMES)),
        (NsysVersion(2023, 4), (NEW_NAMES,)),
        (NsysVersion(2026, 3), (NEW_NAMES,)),
    ],
)
def test_a_version_is_asked_by_the_names_that_it_may_know(
    version: NsysVersion, names: tuple[Mapping[RuleName, str], ...]
) -> None:
    assert rule_names(version) == names


def test_one_command_asks_for_all_rules_in_ns_and_bytes() -> None:
    assert analyze_command(
        Path("/opt/nsys"), ("gpu_gaps:gap=0", "cuda_api_sync"), source="a.sqlite", output="out"
    ) == (
        "/opt/nsys",
        "analyze",
        "--rule=gpu_gaps:gap=0",
        "--rule=cuda_api_sync",
        "--format=csv:mem=B",
        "--timeunit=nsec",
        "--force-overwrite=true",
        "--output=out",
        "a.sqlite",
    )


LACKS = (
    "could not be analyzed because it does not contain the required CUDA data. Does the application use CUDA memset "
    "APIs?"
)
ONE_GAP = f"{GAPS}1,30,100,548,0,1\n"
ONE_COPY = f"{COPIES}9,1,,,5,5,0,1,,7,cudaMemcpyAsync_v3020\n"


class Died(Exception):
    """nsys ends, in the middle of a rule, with this status or minus the number of this signal."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Play:
    """What the stand-in does with one rule, as nsys 2022.4 to 2024.2 do: nothing is printed where nothing is found."""

    csv: str | None = ""
    """None: no file."""
    says: str | None = None
    """Behind the name of the rule; PROCESSED where the file is not empty."""
    dies: int | None = None

    def run(self, csv: Path, source: str, spelled: str) -> str:
        if self.csv is not None:
            csv.write_text(self.csv)
        if self.dies is not None:
            raise Died(self.dies)
        if self.says is None:
            return "PROCESSED\n\n" if self.csv else ""
        return self.says.format(source=source, rule=spelled)


NOTHING = Play()
SKIPPED = Play(says=f"SKIPPED: {{source}} {LACKS}\n\n")
UNKNOWN = Play(csv=None, says="\nERROR: Report '{rule}' could not be found.\n\n")
GAP = Play(csv=ONE_GAP)


@dataclass(kw_only=True)
class StandIn:
    """An nsys that plays, without a process; in place of `run_process`."""

    plays: Mapping[str, Play]
    """By the rule's name as it is asked for; `NOTHING` for the others."""
    ends: int | None = 0
    timed_out: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        timeout_s: float,
        on_line: Callable[[str], None],
        on_tick: Callable[[], None] | None,
        clean: Callable[[str], str],
    ) -> Finished:
        assert list(argv[:2]) == ["/opt/nsys", "analyze"]
        assert env["LC_ALL"] == "C"
        output = next(
            argument.removeprefix("--output=")
            for argument in argv
            if argument.startswith("--output=")
        )
        rules = [
            argument.removeprefix("--rule=") for argument in argv if argument.startswith("--rule=")
        ]
        self.asked += rules
        said, status = "", self.ends
        try:
            for rule in rules:
                spelled, _, arguments = rule.partition(":")
                csv = Path(f"{output}_{rule.replace(':', '_')}.csv")
                play = self.plays.get(spelled, NOTHING)
                script = (
                    spelled
                    if play.csv is None and play.says == UNKNOWN.says
                    else f"/opt/rules/{spelled}.py"
                )
                said += f"Processing [{argv[-1]}] with [{script}]({arguments}) to [{csv}]... "
                said += play.run(csv, argv[-1], spelled)
        except Died as death:
            status = death.status
        for line in said.splitlines():
            on_line(line)
        if on_tick is not None:
            on_tick()
        return Finished(returncode=status, timed_out=self.timed_out, wall_s=0.1, left=())


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "capture of today.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    return path


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, sqlite: Path) -> Callable[..., Findings]:
    def played(stand_in: StandIn, *, version: NsysVersion = RECENT, **options: float) -> Findings:
        monkeypatch.setattr(profile, "run_process", stand_in)
        tool = NsysTool(Path("/opt/nsys"), version)
        try:
            return run_rules(tool, sqlite, sqlite.parent / "rules", **options)  # type: ignore[arg-type]
        finally:
            left = [
                path.name
                for path in (sqlite.parent / "rules").iterdir()
                if path.name.startswith("nsys-")
            ]
            assert left == [], "the workshop is gone, however it ended"

    return played


Played = Callable[..., Findings]


def refusal(play: Played, stand_in: StandIn, **options: float) -> str:
    """The whole message with which it fails."""
    with pytest.raises(CaptureUnreadable) as caught:
        play(stand_in, **options)
    return str(caught.value)


def whole(fact: str, sqlite: Path, rule: str = "cuda_memcpy_async") -> str:
    """A whole message about a rule that failed."""
    return (
        f"rule {rule} of {sqlite}: {fact}. Expected nsys 2024.2.3 to apply it, or to say what it lacks.\n"
        f"Run it by hand: LC_ALL=C /opt/nsys analyze --rule={rule}:rows=10001 {sqlite}"
    )


def test_found_nothing_found_and_skipped_are_told_apart_by_the_log(
    play: Played, sqlite: Path
) -> None:
    assert play(StandIn(plays={"gpu_gaps": GAP, "cuda_memset_sync": SKIPPED})) == Findings(
        rows={
            RuleName.CUDA_MEMCPY_ASYNC: (),
            RuleName.CUDA_MEMCPY_SYNC: (),
            RuleName.CUDA_API_SYNC: (),
            RuleName.GPU_GAPS: (
                Finding(rule=RuleName.GPU_GAPS, start_ns=100, duration_ns=30, pid=548, device=0),
            ),
            RuleName.GPU_TIME_UTIL: (),
        },
        skipped={RuleName.CUDA_MEMSET_SYNC: LACKS},
    )
    assert [path.name for path in (sqlite.parent / "rules").iterdir()] == ["gpu_gaps.csv"]
    assert (sqlite.parent / "rules" / "gpu_gaps.csv").read_text() == ONE_GAP


def test_the_log_of_2025_is_understood(play: Played) -> None:
    # As nsys 2025.3.1 prints summary reports without data: the reason has a line of its own.
    empty = Play(says="PROCESSED (EMPTY RESULTS)\n\n")
    plays = {rule.value: empty for rule in RuleName} | {
        "gpu_gaps": GAP,
        "cuda_memset_sync": Play(
            says=f"PROCESSED (EMPTY RESULTS)\n\nSKIPPED: {{source}} {LACKS}\n\n"
        ),
    }
    found = play(StandIn(plays=plays), version=NsysVersion(2025, 3, 1))
    assert found.skipped == {RuleName.CUDA_MEMSET_SYNC: LACKS}
    assert {rule: len(rows) for rule, rows in found.rows.items()} == {
        RuleName.CUDA_MEMCPY_ASYNC: 0,
        RuleName.CUDA_MEMCPY_SYNC: 0,
        RuleName.CUDA_API_SYNC: 0,
        RuleName.GPU_GAPS: 1,
        RuleName.GPU_TIME_UTIL: 0,
    }


def test_the_rules_are_asked_for_one_row_more_than_is_read(play: Played) -> None:
    stand_in = StandIn(plays={})
    play(stand_in, gap_ms=2)
    assert stand_in.asked == [
        "cuda_memcpy_async:rows=10001",
        "cuda_memcpy_sync:rows=10001",
        "cuda_memset_sync:rows=10001",
        "cuda_api_sync:rows=10001",
        "gpu_gaps:gap=2:rows=10001",
        "gpu_time_util:threshold=50:chunks=30:rows=-1",
    ]


@pytest.mark.parametrize(("written", "cut"), [(2, {}), (3, {RuleName.GPU_GAPS: 2})])
def test_a_rule_that_finds_more_than_is_read_is_cut(
    play: Played, monkeypatch: pytest.MonkeyPatch, written: int, cut: dict[RuleName, int]
) -> None:
    monkeypatch.setattr(rules, "MOST_ROWS", 2)
    rows = "".join(f"{n},{100 - n},{1000 * n},548,0,1\n" for n in range(1, written + 1))
    found = play(StandIn(plays={"gpu_gaps": Play(csv=GAPS + rows)}))
    assert [row.duration_ns for row in found.rows[RuleName.GPU_GAPS]] == [99, 98]
    assert found.cut == cut


def test_a_version_that_has_the_old_names_only_is_asked_again_by_them(
    play: Played, sqlite: Path
) -> None:
    plays = dict.fromkeys(NEW_NAMES.values(), UNKNOWN) | {
        "gpu-starv": GAP,
        "cuda-sync-memset": SKIPPED,
    }
    found = play(StandIn(plays=plays), version=NsysVersion(2022, 5))
    assert (len(found.rows), len(found.rows[RuleName.GPU_GAPS])) == (5, 1)
    assert found.skipped == {RuleName.CUDA_MEMSET_SYNC: LACKS}
    assert [path.name for path in (sqlite.parent / "rules").iterdir()] == ["gpu_gaps.csv"]


def test_only_what_a_version_did_not_know_is_asked_again(play: Played) -> None:
    stand_in = StandIn(plays={"cuda_api_sync": UNKNOWN})
    play(stand_in, version=NsysVersion(2022, 5))
    assert stand_in.asked[6:] == ["cuda-sync-api:rows=10001"]


def test_a_rule_that_a_version_does_not_know_is_skipped(play: Played) -> None:
    plays = {"cuda_api_sync": UNKNOWN, "gpu_time_util": UNKNOWN, "gpu_gaps": GAP}
    found = play(StandIn(plays=plays), version=NsysVersion(2026, 1))
    assert found.skipped == {
        RuleName.CUDA_API_SYNC: "nsys 2026.1.0 does not know this rule",
        RuleName.GPU_TIME_UTIL: "nsys 2026.1.0 does not know this rule",
    }
    assert len(found.rows[RuleName.GPU_GAPS]) == 1


def test_csvs_of_an_earlier_call_do_not_stay(play: Played, sqlite: Path) -> None:
    folder = sqlite.parent / "rules"
    folder.mkdir()
    for rule in RuleName:
        (folder / f"{rule}.csv").write_text("of another capture")
    play(StandIn(plays={"gpu_gaps": GAP, "cuda_api_sync": UNKNOWN, "cuda_memset_sync": SKIPPED}))
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"gpu_gaps.csv": ONE_GAP}


@pytest.mark.parametrize(
    ("failing", "fact"),
    [
        pytest.param(Play(csv=None, says=""), "left no file and did not say why", id="no file"),
        pytest.param(
            Play(csv=None, says="\nERROR: Unable to open output file for writing\n\n"),
            "left no file: ERROR: Unable to open output file for writing",
            id="unwritable",
        ),
        pytest.param(
            Play(
                says="\nERROR: Database file x.sqlite could not be opened and appears to be invalid.\n\n"
            ),
            "left an empty file: ERROR: Database file x.sqlite could not be opened and appears to be invalid",
            id="no database",
        ),
        pytest.param(
            Play(
                says="\nERROR: Report '{rule}.py' encountered an internal error: no such column: nameId\n\n"
            ),
            "left an empty file: ERROR: Report 'cuda_memcpy_async.py' encountered an internal error: "
            "no such column: nameId",
            id="a rule that breaks down",
        ),
        pytest.param(
            Play(
                csv=ONE_COPY,
                says="\nERROR: Report '{rule}.py' encountered an internal error: disk is malformed\n",
            ),
            "may be cut short: ERROR: Report 'cuda_memcpy_async.py' encountered an internal error: disk is malformed",
            id="a rule that breaks down midway",
        ),
        pytest.param(
            Play(says="SKIPPED: {source} file does not contain StringIds table.\n\n"),
            "left an empty file: file does not contain StringIds table",
            id="skipped for a table that is there",
        ),
        pytest.param(
            Play(csv=None, says=f"SKIPPED: {{source}} {LACKS}\n\n", dies=-9),
            "left no file, and nsys itself was ended by SIGKILL",
            id="killed before its file was there",
        ),
        pytest.param(
            Play(dies=-11),
            "left an empty file, and nsys itself was ended by SIGSEGV",
            id="died before the first row",
        ),
        pytest.param(
            Play(csv=ONE_COPY, dies=-6),
            "may be cut short: nsys itself was ended by SIGABRT",
            id="died between two rows",
        ),
        pytest.param(
            Play(dies=1), "left an empty file, and nsys analyze ended with status 1", id="gave up"
        ),
    ],
)
def test_a_rule_that_was_neither_applied_nor_skipped_is_an_error(
    play: Played, sqlite: Path, failing: Play, fact: str
) -> None:
    assert refusal(play, StandIn(plays={"cuda_memcpy_async": failing})) == whole(fact, sqlite)


def test_an_error_that_is_printed_behind_another_rule_is_known_by_the_name_in_it(
    play: Played, sqlite: Path
) -> None:
    # stdout and stderr are two pipes for nsys, and what it printed to one may come later.
    late = Play(
        says="\nERROR: Report 'cuda_memcpy_sync.py' encountered an internal error: out of memory\n\n"
    )
    fact = "left an empty file: ERROR: Report 'cuda_memcpy_sync.py' encountered an internal error: out of memory"
    assert refusal(play, StandIn(plays={"cuda_memset_sync": late})) == whole(
        fact, sqlite, "cuda_memcpy_sync"
    )


def test_an_empty_file_of_an_nsys_that_failed_later_is_not_taken_for_no_findings(
    play: Played, sqlite: Path
) -> None:
    stand_in = StandIn(
        plays={"cuda_memcpy_async": Play(csv=ONE_COPY), "gpu_gaps": Play(csv=None, dies=-9)}
    )
    fact = "left an empty file, and nsys itself was ended by SIGKILL"
    assert refusal(play, stand_in) == whole(fact, sqlite, "cuda_memcpy_sync")


def test_rules_that_take_too_long_are_an_error(play: Played, sqlite: Path) -> None:
    stand_in = StandIn(plays={}, ends=None, timed_out=True)
    assert refusal(play, stand_in, timeout_s=0.5) == whole(
        "nsys analyze did not end within 0.5 s", sqlite
    )


def test_columns_that_are_not_known_are_an_error_that_names_the_capture(play: Played) -> None:
    with pytest.raises(
        LayoutUnknown, match=r"today\.sqlite gpu_gaps: gpu_gaps has columns that perfgate does not"
    ):
        play(StandIn(plays={"gpu_gaps": Play(csv="Row#,Length\n1,2\n")}))


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"version https://git-lfs", "is a Git LFS pointer, not the export"),
    ],
)
def test_what_is_no_export_is_refused_before_nsys_runs(
    tmp_path: Path, content: bytes | None, fact: str
) -> None:
    path = tmp_path / "a.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaptureUnreadable, match=f"a.sqlite: {fact}"):
        run_rules(
            NsysTool(Path("/opt/nsys"), RECENT), path, tmp_path / "rules"
        )  # a process would be an error here


def test_a_folder_that_cannot_be_made_is_told(sqlite: Path) -> None:
    (sqlite.parent / "rules").write_text("a file")
    with pytest.raises(StoreFailed, match="rules: cannot be written"):
        run_rules(NsysTool(Path("/opt/nsys"), RECENT), sqlite, sqlite.parent / "rules")


def test_an_nsys_that_cannot_be_run_is_told(sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> NoReturn:
        raise FileNotFoundError(2, "No such file or directory", "/opt/nsys")

    monkeypatch.setattr(profile, "run_process", refuse)
    with pytest.raises(
        StoreFailed, match=r"nsys /opt/nsys in .*: cannot be run: .*No such file or directory"
    ):
        run_rules(NsysTool(Path("/opt/nsys"), RECENT), sqlite, sqlite.parent / "rules")


def test_gaps_of_less_than_nothing_are_refused(sqlite: Path) -> None:
    with pytest.raises(ValueError, match="gap_ms is -1, and no gap is shorter than 0 ms"):
        run_rules(NsysTool(Path("/opt/nsys"), RECENT), sqlite, sqlite.parent / "rules", gap_ms=-1)


class CalledOff(Exception):
    """The rules are of no use any more."""


def test_the_rules_can_be_called_off(sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call_off() -> None:
        raise CalledOff

    monkeypatch.setattr(profile, "run_process", StandIn(plays={}))
    with pytest.raises(CalledOff):
        run_rules(
            NsysTool(Path("/opt/nsys"), RECENT), sqlite, sqlite.parent / "rules", on_tick=call_off
        )
    assert list((sqlite.parent / "rules").iterdir()) == []


# --- the record ------------------------------------------------------------------------------------------------------


def test_findings_know_of_every_rule_whether_it_was_applied() -> None:
    nothing = dict.fromkeys(RuleName, ())
    all_but_gaps = {rule: () for rule in RuleName if rule is not RuleName.GPU_GAPS}
    reason = {RuleName.GPU_GAPS: "why"}
    with pytest.raises(ValidationError, match="both applied and skipped: ; neither: gpu_gaps"):
        Findings(rows=all_but_gaps, skipped={})
    with pytest.raises(ValidationError, match="both applied and skipped: gpu_gaps; neither: "):
        Findings(rows=nothing, skipped=reason)
    with pytest.raises(ValidationError, match="cut, and not applied: gpu_gaps"):
        Findings(rows=all_but_gaps, skipped=reason, cut={RuleName.GPU_GAPS: 5})


def test_findings_are_written_and_read_again() -> None:
    gap = Finding(rule=RuleName.GPU_GAPS, start_ns=1, duration_ns=2, pid=3, device=0)
    findings = Findings(
        rows={
            rule: (gap,) if rule is RuleName.GPU_GAPS else ()
            for rule in RuleName
            if rule != "cuda_api_sync"
        },
        skipped={RuleName.CUDA_API_SYNC: "why"},
        cut={RuleName.GPU_GAPS: 1},
    )
    assert Findings.model_validate_json(findings.model_dump_json()) == findings
