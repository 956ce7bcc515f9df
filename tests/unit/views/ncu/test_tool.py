"""Small programs stand in for ncu: finding a program means running it."""

from __future__ import annotations

from pathlib import Path

from perfgate.profilers.nsys.tool import Version
from perfgate.views.ncu.command import find_ncu


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
    assert find_ncu(env).path == on_path
    found = find_ncu({**env, "PERFGATE_NCU": str(named)})
    assert (found.path, found.version) == (named, Version(2025, 3, 1))
    assert found.env == {"PATH": str(on_path.parent), "HOME": "/home/ada"}
