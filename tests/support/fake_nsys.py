"""An nsys that is a shell script: the real one fails only where something is broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.profilers.seam import ProfileOutcome, ProfileSpec

RECENT = NsysVersion(2024, 2, 3)

SCRIPT = """#!/bin/sh
verb=$1; shift
for argument; do
  case $argument in
    --output=*) out=${argument#--output=};;
    --report=*) asked="$asked ${argument#--report=}";;
    --rule=*) asked="$asked ${argument#--rule=}";;
    -*) ;;
    *) source=$argument;;
  esac
done
sqlite=@SQLITE@
case $verb in
profile) @PROFILE@
;;
export) @EXPORT@
;;
*) for one in $asked; do
name=${one%%:*}; csv="${out}_$(echo "$one" | tr : _).csv"
printf 'Processing [%s] with [/opt/reports/%s.py]' "$source" "$name"
printf '(%s) to [%s]... ' "${one#*:}" "$csv"
@PRINT@
done
;;
esac
"""
CAPTURES = """echo rep > "$out.nsys-rep"; cp "$sqlite" "$out.sqlite" """


class Fake(NamedTuple):
    """A place with a fake nsys."""

    folder: Path
    sqlite: Path
    """An export."""
    make: Callable[..., NsysTool]

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def profile(
        self,
        script: str,
        *,
        capture: CaptureMode | CaptureWindow = CaptureMode.CUDA_PROFILER_API,
        timeout_s: float = 20.0,
        env: dict[str, str] | None = None,
        **listeners: Callable[..., None],
    ) -> ProfileOutcome:
        """What comes of a run of an nsys that does this."""
        spec = ProfileSpec(
            argv=("sh", "-c", "exit 0"),
            folder=self.run,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", **(env or {})},
            timeout_s=timeout_s,
            capture=capture,
        )
        return profile(self.make(profile=script), spec, **listeners)


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "template of today.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    return path


@pytest.fixture
def fake(tmp_path: Path, sqlite: Path) -> Fake:
    def make(
        profile: str = CAPTURES,
        export: str = 'cp "$sqlite" "$out"',
        prints: str = "echo PROCESSED",
        version: NsysVersion = RECENT,
    ) -> NsysTool:
        path = tmp_path / "nsys"
        script = SCRIPT.replace("@SQLITE@", f"'{sqlite}'").replace("@PROFILE@", profile)
        path.write_text(script.replace("@EXPORT@", export).replace("@PRINT@", prints))
        path.chmod(0o755)
        return NsysTool(path, version)

    return Fake(tmp_path, sqlite, make)
