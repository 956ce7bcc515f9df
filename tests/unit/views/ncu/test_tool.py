"""Small programs stand in for ncu: finding a program means running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import NcuNotFound, NcuUnsupported
from perfgate.views.ncu.tool import NcuVersion, find_ncu

NOWHERE: tuple[str, ...] = ()
HOW_TO_GET_ONE = (
    "Install Nsight Compute (package nsight-compute, or https://developer.nvidia.com/nsight-compute), "
    "then put ncu on PATH, or set PERFGATE_NCU."
)


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


def test_none_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NcuNotFound) as refused:
        find_ncu({"PATH": ""}, places=("/nowhere/there/*/ncu",))
    assert str(refused.value) == (
        f"ncu: not found in PERFGATE_NCU, PATH, NVIDIA's usual folders in /nowhere/there.\n{HOW_TO_GET_ONE}"
    )


def test_what_was_named_and_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    env = {
        "PATH": str(ncu(tmp_path / "bin" / "ncu", "2025.3.1").parent),
        "PERFGATE_NCU": "/nowhere/ncu",
    }
    with pytest.raises(NcuNotFound) as refused:
        find_ncu(env, places=NOWHERE)
    assert str(refused.value) == (
        "ncu /nowhere/ncu (from PERFGATE_NCU): does not exist. Expected the ncu program.\n"
        "Correct PERFGATE_NCU, or leave it out to search PATH and NVIDIA's usual folders."
    )


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        (
            "echo Version 2020.3.1",
            NcuUnsupported,
            "is version 2020.3.1. perfgate knows 2022.1 and newer",
        ),
        (
            "echo hello",
            NcuUnsupported,
            "`ncu --version` tells no version: hello. Expected 'Version 2022.1' or newer",
        ),
        (
            "echo no library; exit 127",
            NcuNotFound,
            "`ncu --version` ended with status 127: no library",
        ),
        ("sleep 20", NcuNotFound, "`ncu --version` gave no answer within 0.5 s"),
    ],
)
def test_what_was_named_and_is_no_use_says_why(
    tmp_path: Path, body: str, error: type[Exception], says: str
) -> None:
    named = program(tmp_path / "ncu", body)
    with pytest.raises(error) as refused:
        find_ncu(
            {"PERFGATE_NCU": str(named), "PATH": "/usr/bin:/bin"}, places=NOWHERE, timeout_s=0.5
        )
    assert str(refused.value) == f"ncu {named} (from PERFGATE_NCU): {says}.\n{HOW_TO_GET_ONE}"


def test_where_all_that_was_found_is_too_old_that_is_said(tmp_path: Path) -> None:
    old = ncu(tmp_path / "ncu", "2019.5.0")
    with pytest.raises(NcuUnsupported) as refused:
        find_ncu({}, places=(str(old),))
    assert str(refused.value).startswith(f"ncu {old} (from {old}): is version 2019.5.0.")
