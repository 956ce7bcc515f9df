"""A folder of wheels that pip takes for an index: nothing in them but their names and what they
need."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def wheel(folder: Path, name: str, version: str = "99.0", *, needs: Sequence[str] = ()) -> Path:
    """Write a wheel without a module."""
    info = f"{name}-{version}.dist-info"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    needed = "".join(f"Requires-Dist: {one}\n" for one in needs)
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
        )
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/RECORD", "")
    return file
