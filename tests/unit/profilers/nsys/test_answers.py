"""What comes of nsys's exports, reports and rules, and every way in which they fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_nsys import RECENT, Fake
from support.refused import refused

from perfgate.model.errors import CaptureUnreadable, PerfgateError
from perfgate.model.order import RUN_COOKIE
from perfgate.model.reports import Finding, Reports, RuleName
from perfgate.profilers.nsys.answers import export
from perfgate.profilers.nsys.reports import run_reports, run_rules
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion

LACKS = "does not contain CUDA trace data."
SKIPS = f': > "$csv"; echo "SKIPPED: $source {LACKS}"'
SKIPS_AS_2025 = (
    rf""": > "$csv"; printf 'PROCESSED (EMPTY RESULTS)\n\nSKIPPED: %s {LACKS}\n\n' "$source" """
)
"""As nsys 2025.3.1 printed it on an H200, for captures without copies or without kernels."""
NOTHING = ': > "$csv"'
"""Of a rule that finds nothing up to 2024: not even the end of the line."""
UNKNOWN = """echo; echo "ERROR: Report '$name' could not be found." >&2"""
NVTX = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range
100.0,5397846,5,1079569.2,1074207.0,1072625,1098413,10858.3,PushPop,step
"""
CALLS = "Duration (ns),Start (ns),PID,TID,API Name\n"
CALL = f"{CALLS}30,100,548,0,x\n"


def writes(text: str) -> str:
    return f"""printf '{text.replace("%", "%%")}' > "$csv"; echo PROCESSED"""


def of(names: str, does: str, otherwise: str) -> str:
    return f"case $name in {names}) {does};; *) {otherwise};; esac"


def reports(fake: Fake, prints: str, version: NsysVersion = RECENT) -> Reports:
    tool = fake.make(prints=prints, version=version)
    return run_reports(tool, fake.sqlite, fake.folder / "printed")


def findings(fake: Fake, prints: str, version: NsysVersion = RECENT) -> tuple[Finding, ...]:
    tool = fake.make(prints=prints, version=version)
    return run_rules(tool, fake.sqlite, fake.folder / "printed")


def refusal(fake: Fake, prints: str) -> PerfgateError:
    with pytest.raises(PerfgateError) as caught:
        findings(fake, prints)
    assert not [path for path in (fake.folder / "printed").iterdir() if path.is_dir()]
    return caught.value


# --- exports -------------------------------------------------------------------------------------


@pytest.fixture
def rep(fake: Fake) -> Path:
    path = fake.folder / "model%p.nsys-rep"
    path.write_text("rep")
    return path


def test_export_returns_the_checked_export(fake: Fake, rep: Path) -> None:
    target = export(fake.make(), rep, fake.folder / "out")
    assert target == fake.folder / "out" / "model%p.sqlite"
    assert target.read_bytes() == fake.sqlite.read_bytes()
    assert list((fake.folder / "out").iterdir()) == [target]


@pytest.mark.parametrize(
    ("content", "script", "code"),
    [
        ("version https://git-lfs.github.com/spec/v1\n", "exit 0", "capture-is-pointer"),
        ("", "exit 0", "capture-empty"),
        ("rep", "echo 'Exportation error: magic number mismatch.' >&2; exit 1", ""),
        ("rep", "exit 0", ""),
        ("rep", 'head -c 5000 "$sqlite" > "$out"', ""),
        ("rep", "exec sleep 60", ""),
    ],
    ids=["git lfs pointer", "empty", "cut short", "silent failure", "export cut short", "hangs"],
)
def test_a_capture_that_cannot_be_exported_leaves_the_earlier_export(
    fake: Fake, rep: Path, content: str, script: str, code: str
) -> None:
    earlier = export(fake.make(), rep, fake.folder)
    rep.write_text(content)
    with refused(CaptureUnreadable, code or "capture-not-exported"):
        export(fake.make(export=script), rep, fake.folder, timeout_s=2)
    assert earlier.read_bytes() == fake.sqlite.read_bytes()


class CalledOff(Exception):
    """A run is of no use any more."""


def call_off() -> None:
    raise CalledOff


def test_exports_and_reports_can_be_called_off(fake: Fake, rep: Path) -> None:
    tool = fake.make(export="sleep 20", prints="sleep 20")
    with pytest.raises(CalledOff):
        export(tool, rep, fake.folder, on_tick=call_off)
    with pytest.raises(CalledOff):
        run_reports(tool, fake.sqlite, fake.folder / "printed", on_tick=call_off)


# --- reports and rules ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "skips"),
    [
        (NsysVersion(2022, 4, 2), SKIPS),
        (NsysVersion(2023, 4, 4), SKIPS),
        (NsysVersion(2024, 2, 3), SKIPS),
        (NsysVersion(2025, 3, 1), SKIPS_AS_2025),
    ],
)
def test_reports_are_read_and_skipped_ones_are_empty(
    fake: Fake, version: NsysVersion, skips: str
) -> None:
    found = reports(fake, of("nvtx_sum|nvtxsum", writes(NVTX), skips), version)
    assert [(row.range, row.count, row.total_ns) for row in found.nvtx_sum] == [
        ("step", 5, 5397846)
    ]
    assert (found.cuda_gpu_kern_sum, found.cuda_gpu_mem_time_sum) == ((), ())
    assert [path.name for path in (fake.folder / "printed").iterdir()] == ["nvtx_sum.csv"]


def test_a_report_of_a_table_that_holds_no_such_event_is_empty(fake: Fake) -> None:
    """Of a window that opened behind the last range NVTX_EVENTS holds the domain's end alone."""
    found = reports(fake, of("nvtx_sum", NOTHING, SKIPS))
    assert found.nvtx_sum == ()
    assert (found.cuda_gpu_kern_sum, found.cuda_gpu_mem_time_sum) == ((), ())


def test_found_nothing_found_and_skipped_differ_by_the_log(fake: Fake) -> None:
    folder = fake.folder / "printed"
    folder.mkdir()
    for rule in RuleName:
        (folder / f"{rule}.csv").write_text("of another capture")
    skips = of("cuda_memset_sync", SKIPS, NOTHING)
    found = findings(fake, of("cuda_api_sync", writes(CALL), skips))
    assert [one.rule for one in found] == [RuleName.CUDA_API_SYNC]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"cuda_api_sync.csv": CALL}


def test_a_rule_that_a_version_does_not_know_is_skipped(fake: Fake) -> None:
    assert findings(fake, of("cuda_api_sync", UNKNOWN, NOTHING), NsysVersion(2026, 1)) == ()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo PROCESSED", ""),
        (
            "echo; echo 'ERROR: Unable to open output file for writing'",
            "ERROR: Unable to open output file for writing",
        ),
        (
            f"""{NOTHING}; echo; echo "ERROR: Report '$name.py' encountered an internal error" """,
            "ERROR: Report 'cuda_api_sync.py' encountered an internal error",
        ),
        (
            f"""{writes(CALL)}; echo "ERROR: Report '$name.py' encountered an internal error" """,
            "ERROR: Report 'cuda_api_sync.py' encountered an internal error",
        ),
        (f'{NOTHING}; echo "SKIPPED: $source file does not contain StringIds table."', ""),
        (f"{NOTHING}; echo; echo boom. >&2; exit 1", "boom"),
        ("kill -9 $$", "exit status -9"),
        (f"""printf '{CALL}' > "$csv"; kill -6 $$""", "exit status -6"),
        (f"{NOTHING}; exit 1", "exit status 1"),
    ],
    ids=[
        "no file",
        "unwritable",
        "breaks down",
        "breaks down midway",
        "skipped for a table that is there",
        "gave up",
        "killed",
        "died between two rows",
        "failed silently",
    ],
)
def test_what_was_neither_printed_nor_skipped_is_an_error(fake: Fake, does: str, said: str) -> None:
    error = refusal(fake, of("cuda_api_sync", does, writes("TID\n")))
    assert error.code in ("nsys-printed-nothing", "columns-unknown")
    error = refusal(fake, of("cuda_api_sync", does, f"{NOTHING}; echo"))
    assert error.code == "nsys-printed-nothing"
    assert error.fields["name"] in ("cuda_api_sync", "cuda_memcpy_async")
    assert said in str(error.fields["said"])
    assert f"--rule={error.fields['name']}" in str(error.fields["command"])


def test_reports_run_under_the_c_locale_and_without_the_users_variables(fake: Fake) -> None:
    prints = of("nvtx_sum", f'env > "{fake.folder}/seen"; {writes(NVTX)}', SKIPS)
    tool = fake.make(prints=prints)
    env = {"LC_ALL": "de_DE.UTF-8", "HOME": "/home/me"}
    run_reports(NsysTool(tool.path, tool.version, env), fake.sqlite, fake.run)
    lines = (fake.folder / "seen").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines)
    assert (seen["LC_ALL"], seen["HOME"]) == ("C", "/home/me")
    shells = {"PWD", "SHLVL", "OLDPWD", "_"}
    assert set(seen) <= {"LC_ALL", "HOME", "PATH", "TMPDIR", RUN_COOKIE, *shells}
