"""The command lines of ncu, word by word."""

from __future__ import annotations

from pathlib import Path

from perfgate.profilers.nsys.tool import Tool, Version
from perfgate.views.ncu.command import OneLaunch, profile_command, read_command

TOOL = Tool(path=Path("/opt/ncu"), version=Version(2025, 3, 1))
SYMBOL = "_ZN2at6native4fillIfEEvPT_"
ARGV = ("/venv/bin/python", "-m", "pytest", "-qq")


def test_one_launch_is_profiled_with_clocks_left_alone() -> None:
    command = profile_command(
        TOOL,
        OneLaunch(kernel=SYMBOL),
        ARGV,
        report=Path("/run/launch.ncu-rep"),
        log=Path("/run/ncu.log"),
    )
    assert command == (
        "/opt/ncu",
        *("--section", "SpeedOfLight", "--section", "LaunchStats", "--section", "Occupancy"),
        "--apply-rules=no",
        "--target-processes=all",
        "--replay-mode=kernel",
        "--cache-control=all",
        "--clock-control=none",
        "--profile-from-start=off",
        "--kernel-name-base=mangled",
        "--kernel-name=_ZN2at6native4fillIfEEvPT_",
        "--launch-skip=0",
        "--launch-count=1",
        "--log-file=/run/ncu.log",
        "--export=/run/launch.ncu-rep",
        "--force-overwrite",
        *ARGV,
    )


def test_a_workload_that_never_starts_a_capture_is_counted_from_its_start() -> None:
    launch = OneLaunch(kernel=SYMBOL, skip=20, from_start=True)
    command = profile_command(TOOL, launch, ARGV, report=Path("r"), log=Path("l"))
    assert {"--profile-from-start=on", "--launch-skip=20"} <= set(command)


def test_a_report_is_printed_as_csv_in_base_units() -> None:
    *words, metrics = read_command(TOOL, Path("/run/launch.ncu-rep"))
    assert words == [
        "/opt/ncu",
        "--import=/run/launch.ncu-rep",
        "--page=raw",
        "--csv",
        "--print-units=base",
        "--print-kernel-base=mangled",
    ]
    named = metrics.removeprefix("--metrics=").split(",")
    assert "gpu__time_duration.sum" in named
