"""Kept results: each gate's runs with their captures, candidates for a baseline, of which the
oldest are forgotten."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from perfgate.model.baseline import Result
from perfgate.model.errors import ResultMissing, ResultUnreadable
from perfgate.model.record import LARGEST_RESULT
from perfgate.store.disk import Disk, bytes_of, file_name, workload_of
from perfgate.store.sealed import NotJson, first_complaint, parsed

KEPT_RESULTS: Final = 20
"""Kept results per workload and machine: four for each of the five occasions that a good baseline
wants."""
KEPT_CAPTURES: Final = 2
"""Of these, how many keep their captures (tens of MB a run): the latest and the one it is compared
with."""
ABANDONED: Final = timedelta(hours=24)
"""Age from which a folder without a result is what an interrupted gate left, not one that is being
filled."""
RESULT_FILE: Final = "result.json"

_RESULT_FOLDER = re.compile(r"(\d{8}T\d{6}\.\d{6})Z-[0-9a-f]{6}")
_TIME = "%Y%m%dT%H%M%S.%f"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptResult:
    """One kept result and its folder."""

    folder: Path
    result: Result


@dataclass(frozen=True, slots=True)
class Results:
    """The kept results of one project."""

    disk: Disk
    folder: Path
    """Where they lie, by machine and workload; a .gitignore keeps git from it."""

    def new_folder(self, workload: str, slug: str, *, at: datetime) -> Path:
        """Make and return a fresh folder for one gate's captures and its result; `at` is aware and
        becomes its name.

        Raises:
            StoreFailed: the disk did not take it.
        """
        self.hide()
        name = f"{at.astimezone(UTC).strftime(_TIME)}Z-{secrets.token_hex(3)}"
        folder = self.folder / file_name(slug) / file_name(workload) / name
        self.disk.make_folder(folder.parent)
        try:
            folder.mkdir()
        except OSError as error:
            raise self.disk.failed(folder, error) from error
        return folder

    def hide(self) -> None:
        """Make the folder around them, which git is kept from.

        Raises:
            StoreFailed: the disk did not take it.
        """
        self.disk.make_folder(self.folder.parent)
        ignore = self.folder.parent / ".gitignore"
        if not ignore.exists():
            self.disk.write(ignore, "*\n")

    def save(self, result: Result, folder: Path) -> Path:
        """Write a result into the folder that `new_folder` made for it, then forget old ones;
        return its path.

        Of a workload on a machine, 20 results stay, and the captures of the latest 2. Folders that
        an interrupted gate left without a result go after a day. The new result and its captures
        always stay.

        Raises:
            StoreFailed: the disk did not take it.
        """
        path = folder / RESULT_FILE
        self.disk.write(path, result.model_dump_json(indent=1) + "\n", largest=LARGEST_RESULT)
        with suppress(ResultUnreadable):  # what cannot be deleted is no reason to fail
            _forget(folder, now=result.measured_at)
        return path

    def load(self, path: Path) -> Result:
        """Return the result in a file or folder.

        Raises:
            ResultMissing: there is no such file.
            ResultUnreadable: the file is not a whole result of a format that this perfgate reads.
        """
        file = path / RESULT_FILE if path.is_dir() else path
        named = self.disk.shown(file)
        try:
            raw = bytes_of(file)
        except FileNotFoundError as error:
            raise ResultMissing("result-not-there", path=named) from error
        except OSError as error:
            raise ResultUnreadable(
                "result-not-readable", path=named, strerror=error.strerror
            ) from error
        return self.parse(raw, file)

    def parse(self, raw: bytes, path: Path) -> Result:
        """Return the result in what such a file once held; `path` is what messages call it.

        Raises:
            ResultUnreadable: it is not a whole result of a format that this perfgate reads.
        """
        named = self.disk.shown(path)
        try:
            return Result.model_validate(parsed(raw))
        except ValidationError as error:
            why = first_complaint(error)
            raise ResultUnreadable("result-does-not-fit", path=named, why=why) from error
        except NotJson as error:
            raise ResultUnreadable("result-broken", path=named, why=error.why) from error

    def kept(self, workload: str, slug: str) -> tuple[list[KeptResult], int]:
        """Return what is kept of a workload on a machine, newest first, and how many are broken."""
        folders = _with_result(self.folder / file_name(slug) / file_name(workload))
        found: list[KeptResult] = []
        for folder in folders:
            with suppress(ResultUnreadable, ResultMissing):
                found.append(KeptResult(folder=folder, result=self.load(folder)))
        return found, len(folders) - len(found)

    def latest(self, workload: str) -> KeptResult | None:
        """Return the newest kept result on any machine, None where there is none.

        Raises:
            ResultUnreadable: the newest is broken; an older one is never taken in its place.
        """
        of_it = (_with_result(one / file_name(workload)) for one in _folders(self.folder))
        newest = max(chain(*of_it), key=lambda folder: folder.name, default=None)
        return None if newest is None else KeptResult(folder=newest, result=self.load(newest))

    def workloads(self) -> tuple[str, ...]:
        """Return the ids of the workloads that have a kept result on any machine, sorted."""
        found: set[str] = set()
        for machine in _folders(self.folder):
            for folder in _folders(machine):
                kept, name = _with_result(folder), workload_of(folder.name)
                if kept and name is None:  # its folder's name was cut
                    with suppress(ResultUnreadable, ResultMissing):
                        name = self.load(kept[0]).workload.id
                if kept:
                    found.add(name or folder.name)
        return tuple(sorted(found))


def _folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders in a folder by name, none where it does not exist; links are not followed.

    Raises:
        ResultUnreadable: it may not be looked into.
    """
    try:
        return tuple(
            sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
        )
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ResultUnreadable(
            "results-not-listed", path=str(folder), strerror=error.strerror
        ) from error


def _with_result(folder: Path) -> list[Path]:
    """Return the folders of kept results in a workload's folder, newest first."""
    kept = [path for path in _folders(folder) if _RESULT_FOLDER.fullmatch(path.name)]
    return [path for path in reversed(kept) if os.path.lexists(path / RESULT_FILE)]


def _forget(newest: Path, *, now: datetime) -> None:
    """Delete what is beyond the limits next to a result just saved."""
    others = [path for path in _with_result(newest.parent) if path != newest]
    for age, folder in enumerate(others, start=1):
        if age >= KEPT_RESULTS:
            shutil.rmtree(folder, ignore_errors=True)
        elif age >= KEPT_CAPTURES:
            _drop_captures(folder)
    for folder in _folders(newest.parent):
        made = _RESULT_FOLDER.fullmatch(folder.name)
        if made is None or os.path.lexists(folder / RESULT_FILE):
            continue
        if now - datetime.strptime(made[1], _TIME).replace(tzinfo=UTC) > ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)


def _drop_captures(folder: Path) -> None:
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name == RESULT_FILE:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
