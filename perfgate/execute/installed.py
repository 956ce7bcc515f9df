"""What an environment says of its packages, and a folder of the project that it would be installed as."""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

LAYOUTS: Final = (".", "src")
"""Where a project's packages lie, from its root."""

_IMPORTED: Final = re.compile(r"^import[ \t]+(\w+)", re.MULTILINE)
"""What a `.pth` file lets the interpreter import as it starts."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a distribution was installed from, where it was no index."""

    path: Path | None = None
    """A folder or an archive of this machine."""
    is_folder: bool = False
    is_editable: bool = False

    @property
    def source(self) -> Path | None:
        """The folder, unless only a link to it was installed."""
        return self.path if self.is_folder and not self.is_editable else None


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """What says of itself that it is installed in a folder."""

    name: str
    source: Path | None
    """The folder that it was installed from, where it was one."""
    files: str
    """Its record, a line a file; the top-level names where it has none."""
    has_record: bool

    def holds(self, inner: PurePath) -> bool:
        """Whether a file is one of its own."""
        if self.has_record:
            return f"\n{inner.as_posix()}," in self.files
        return f"\n{inner.parts[0].removesuffix('.py')}\n" in self.files

    @property
    def recorded(self) -> frozenset[str]:
        """Its files, from the folder that it is installed in; none where it has no record."""
        lines = self.files.splitlines() if self.has_record else ()
        return frozenset(line.rsplit(",", 2)[0] for line in lines if line)

    def finders(self, site: Path) -> frozenset[str]:
        """Those of its files that its `.pth` files import: they lead to a project that is installed in place."""
        found: set[str] = set()
        for name in self.recorded:
            if name.endswith(".pth"):
                with suppress(OSError):
                    text = (site / name).read_text("utf-8", "replace")
                    found |= {f"{module}.py" for module in _IMPORTED.findall(text)}
        return frozenset(found & self.recorded)

    @property
    def tops(self) -> frozenset[str]:
        """Its top-level names, with others that no module can have."""
        first = (re.split(r"[/,]", line, maxsplit=1)[0] for line in self.files.splitlines())
        return frozenset(name.removesuffix(".py") for name in first)


def name_of(info: Path) -> str:
    """The name of a distribution by its folder's."""
    return canonicalize_name(info.name.partition("-")[0])


def distribution_at(info: Path) -> Iterator[Distribution]:
    """What the notes in a folder, or one file of them, say; nothing where they cannot be read."""
    with suppress(OSError):
        notes = (info / "METADATA", info / "PKG-INFO", info)
        metadata = next(
            (file.read_text("utf-8", "replace") for file in notes if file.is_file()), ""
        )
        told = re.search(r"^Name:[ \t]*(\S+)", metadata, re.MULTILINE)
        record = info / "RECORD"
        files = record if record.is_file() else info / "top_level.txt"
        listed = files.read_text("utf-8", "replace") if files.is_file() else ""
        yield Distribution(
            name=name_of(info) if told is None else canonicalize_name(told[1]),
            source=origin_of(info).source,
            files="\n" + listed.replace('"', "") + "\n",
            has_record=files == record,
        )


def origin_of(info: Path) -> Origin:
    """What the note beside a distribution says (PEP 610); one that cannot be read says nothing."""
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        told = json.loads((info / "direct_url.json").read_text(encoding="utf-8"))
        url = urlsplit(told["url"])
        return Origin(
            path=Path(os.path.realpath(unquote(url.path))) if url.scheme == "file" else None,
            is_folder="dir_info" in told,
            is_editable=bool(told.get("dir_info", {}).get("editable")),
        )
    return Origin()


def built_in(folder: Path) -> Iterator[Distribution]:
    """What building a project has left in it."""
    for layout in LAYOUTS:
        for info in sorted((folder / layout).glob("*.egg-info")):
            yield from distribution_at(info)


def project_names(folder: Path) -> frozenset[str]:
    """What a project is installed as, by what it says and by what building it has left: a setup.py may compute it."""
    found = {one.name for one in built_in(folder)}
    with suppress(OSError, ValueError, AttributeError, TypeError):
        told = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        for table in (told.get("project", {}), told.get("tool", {}).get("poetry", {})):
            found |= {canonicalize_name(str(table["name"]))} if "name" in table else set()
    with suppress(OSError, ValueError, configparser.Error):
        config = configparser.ConfigParser(interpolation=None)
        config.read(folder / "setup.cfg", encoding="utf-8")
        found |= (
            {canonicalize_name(config["metadata"]["name"])}
            if config.has_option("metadata", "name")
            else set()
        )
    with suppress(OSError, ValueError):
        setup = (folder / "setup.py").read_text(encoding="utf-8")
        named = re.findall(r"\bname\s*=\s*[\"']([\w.-]+)[\"']", setup)
        found |= {canonicalize_name(name) for name in named}
    return frozenset(found)
