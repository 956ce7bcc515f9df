"""What `addopts` says, and which of its words pytest begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.execute.addopts import starting_options, starting_options_of

HERE = Path("/project")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], ()),
        (["-ra", "-k", "loop", "workloads", "--tb=short"], ()),
        (["-p", "one", "-ptwo", "-p", "no:three"], ("-p", "one", "-p", "two", "-p", "no:three")),
        (["-o", "a=b c", "--override-ini=d=e"], ("--override-ini=a=b c", "--override-ini=d=e")),
        (["-of=g"], ("--override-ini=f=g",)),
        (["-svra", "-xvsZ", "-Zq", "-k", "not slow", "-po"], ("-p", "o")),
        (["-W", "error", "-m", "not gpu", "-n2", "-pone", "--", "-p", "two"], ("-p", "one")),
        (["--import-mode", "append"], ("--import-mode=append",)),
        (["--confcutdir=.."], ("--confcutdir=/",)),
        (["--confcutdir", "/else/where"], ("--confcutdir=/else/where",)),
        (["--import"], ()),
        (["-p"], ()),
    ],
)
def test_files_plugins_and_ini_values_are_what_pytest_begins_with(
    words: list[str], options: tuple[str, ...]
) -> None:
    assert starting_options(words, folder=HERE) == options


def test_addopts_that_are_given_stand_for_those_of_the_file(tmp_path: Path) -> None:
    ini = tmp_path / "pytest.ini"
    ini.write_text("[pytest]\naddopts = -p one -o addopts=-pnone\n", encoding="utf-8")
    assert starting_options_of(("--rootdir=/x", "-c", str(ini))) == ("-p", "one")
    assert starting_options_of(("-c", str(ini), "--override-ini=addopts=-p two")) == ("-p", "two")
    assert starting_options_of(("-c", str(tmp_path / "gone.ini"))) == ()
    assert starting_options_of(("--rootdir=/x",)) == ()
