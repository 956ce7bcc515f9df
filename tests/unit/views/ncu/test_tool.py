"""Small programs stand in for ncu: finding a program means running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import NcuNotFound, NcuUnsupported
from perfgate.views.ncu.tool import NcuVersion, find_ncu

NOWHERE: tuple[str, ...] = ()


def ncu(path: Path, version: str) -> Path:
    return program(
        path,
        "echo 'NVIDIA (R) Nsight Compute Command Line Profiler'\n"
        "echo 'Copyright (c) 2018-2024 NVIDIA Corporation'\n"
        f"echo 'Version {version} (build 34181891) (public-release)'",
    )


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_variable_comes_before_the_path(tmp_path: Path) -> None:
    named, on_path = (
        ncu(tmp_path / "named", "2025.3.1.0"),
        ncu(tmp_path / "bin" / "ncu", "2024.2.0.0"),
    )
    env = {"PATH": str(on_path.parent), "HOME": "/home/ada", "HF_TOKEN": "secret"}
    assert find_ncu(env, places=NOWHERE).path == on_path
    found = find_ncu({**env, "PERFGATE_NCU": str(named)}, places=NOWHERE)
    assert (found.path, found.version) == (named, NcuVersion(2025, 3, 1))
    assert found.env == {"PATH": str(on_path.parent), "HOME": "/home/ada"}


def test_of_several_in_the_usual_folders_the_newest_is_taken(tmp_path: Path) -> None:
    for version in ("2024.2.0", "2025.3.1", "2019.5.0"):
        ncu(tmp_path / version / "ncu", version)
    program(tmp_path / "broken" / "ncu", "exit 3")
    assert find_ncu({}, places=(f"{tmp_path}/*/ncu",)).version == NcuVersion(2025, 3, 1)


def test_what_was_named_and_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    env = {
        "PATH": str(ncu(tmp_path / "bin" / "ncu", "2025.3.1").parent),
        "PERFGATE_NCU": "/nowhere/ncu",
    }
    with pytest.raises(NcuNotFound) as refused:
        find_ncu(env, places=NOWHERE)
    assert refused.value.code == "program-not-run"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo Version 2020.3.1", NcuUnsupported),
        ("echo hello", NcuUnsupported),
        ("echo no library; exit 127", NcuNotFound),
        ("sleep 20", NcuNotFound),
    ],
)
def test_what_was_named_and_is_no_use_is_an_error(
    tmp_path: Path, body: str, error: type[Exception]
) -> None:
    env = {"PERFGATE_NCU": str(program(tmp_path / "ncu", body)), "PATH": "/usr/bin:/bin"}
    with pytest.raises(error):
        find_ncu(env, places=NOWHERE, timeout_s=0.5)


def test_where_all_that_was_found_is_too_old_that_is_said(tmp_path: Path) -> None:
    old = ncu(tmp_path / "ncu", "2019.5.0")
    with pytest.raises(NcuUnsupported) as refused:
        find_ncu({}, places=(str(old),))
    assert (refused.value.fields["found"], refused.value.fields["source"]) == (
        "2019.5.0",
        str(old),
    )
