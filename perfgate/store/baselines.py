"""The folder of the baselines: files of record, read with their errors and never silently
overwritten."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, StoreFailed
from perfgate.model.note import note
from perfgate.model.record import LARGEST_BASELINE
from perfgate.store.disk import Disk, bytes_of, file_name, workload_of
from perfgate.store.sealed import baseline_text, opened, same_seal


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedBaseline:
    """One baseline file and what came of reading it."""

    slug: str
    workload: str
    """The workload's id; the file's name where the file cannot say it and the name was too long to
    hold it."""
    path: Path
    found: Baseline | BaselineUnreadable
    source: str | None
    """The file that declared the workload, from the project's root; None where that is not
    known."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """The baselines of one project."""

    disk: Disk
    folder: Path

    def path(self, slug: str, workload: str) -> Path:
        """Return where a workload's baseline on a machine lies, whether or not it does."""
        return self.folder / file_name(slug) / f"{file_name(workload)}.json"

    def load(self, slug: str, workload: str) -> Baseline | None:
        """Return a workload's baseline on a machine, None where there is none.

        Whether the machine inside is that of the folder is for the judge to say, who names what
        differs.

        Raises:
            BaselineUnreadable: there is a file, and it is not the whole, unchanged baseline of this
            workload.
        """
        path = self.path(slug, workload)
        content = self._content(path)
        return None if content is None else self.parse(content, path)

    def read(self, path: Path) -> Baseline:
        """Return the baseline in any file, under whatever name: one of another branch or project,
        to be looked at.

        Raises:
            BaselineMissing: there is no such file.
            BaselineUnreadable: the file is not a whole, unchanged baseline.
        """
        content = self._content(path)
        if content is None:
            raise BaselineMissing("baseline-not-there", path=self.disk.shown(path))
        return opened(content, path=self.disk.shown(path), workload=None)

    def parse(self, content: bytes, path: Path) -> Baseline:
        """Return the baseline in what such a file once held; `path` is what messages call it, and
        tells the workload.

        Raises:
            BaselineUnreadable: it is not a whole, unchanged baseline, or is that of another
            workload.
        """
        name, shown = path.name.removesuffix(".json"), self.disk.shown(path)
        workload = workload_of(name)
        baseline = opened(content, path=shown, workload=workload)
        if file_name(baseline.workload) != name:
            raise BaselineUnreadable(
                "baseline-of-another-workload",
                path=shown,
                workload=workload or "WORKLOAD",
                found=baseline.workload,
            )
        return baseline

    def listed(
        self, slug: str | None = None, *, at_home: bool = False
    ) -> tuple[ListedBaseline, ...]:
        """Return every baseline of one machine or of all, by folder and name, the unreadable ones
        with their error.

        Where they are to be `at_home`, so are those in the folder of another machine than they were
        measured on.

        Raises:
            BaselineUnreadable: a folder cannot be listed.
        """
        folders = self._listing(self.folder) if slug is None else [self.folder / file_name(slug)]
        return tuple(
            self._listed(path, at_home=at_home)
            for folder in folders
            if slug is not None or folder.is_dir()
            for path in self._listing(folder)
            if path.suffix == ".json"
        )

    def other_machines(self, workload: str) -> tuple[str, ...]:
        """Return the slugs of the machines that have a baseline of this workload.

        Raises:
            BaselineUnreadable: the folder of the baselines cannot be listed.
        """
        name = f"{file_name(workload)}.json"
        return tuple(
            folder.name for folder in self._listing(self.folder) if os.path.lexists(folder / name)
        )

    def unknown(self, subject: str) -> BaselineMissing:
        """Return the error of what has no baseline, which names the workloads that have one.

        Raises:
            BaselineUnreadable: a folder cannot be listed.
        """
        known = tuple(sorted({one.workload for one in self.listed()}))
        code = "baseline-unknown" if known else "baselines-none"
        return BaselineMissing(code, subject=subject, known=known)

    def save(self, baseline: Baseline, *, replacing: Baseline | None) -> Path:
        """Write a baseline and return its path; the old file is whole until the new one is.

        Args:
            baseline: what to write, into the folder of its own machine.
            replacing: the baseline that was loaded from there before, None where there was none.

        Raises:
            StoreFailed: the disk did not take it, the file there is no longer `replacing`, or is a
            link. Nothing has
                changed.
            BaselineUnreadable: the file that would be replaced is broken; it is left as it is.
        """
        path = self.ready_for(baseline)
        with self.disk.alone_in(path.parent):
            current = self.load(baseline.machine.slug, baseline.workload)
            if not same_seal(current, replacing):
                raise StoreFailed(
                    "baseline-changed-meanwhile",
                    path=self.disk.shown(path),
                    what=note(
                        "baseline-was-deleted" if current is None else "baseline-was-written"
                    ),
                )
            self.disk.write(path, baseline_text(baseline), largest=LARGEST_BASELINE)
        return path

    def ready_for(self, baseline: Baseline) -> Path:
        """Return where a baseline is written, with its folder made; to be asked of several before
        one is.

        Raises:
            StoreFailed: the file there is a link, or the folder cannot be made or written.
        """
        path = self.path(baseline.machine.slug, baseline.workload)
        if path.is_symlink():
            raise StoreFailed("baseline-is-link", path=self.disk.shown(path))
        self.disk.make_folder(path.parent)
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise self.disk.failed(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        return path

    # Reading

    def _content(self, path: Path) -> bytes | None:
        try:
            return bytes_of(path)
        except FileNotFoundError:
            for link in (self.folder, path.parent, path):
                if link.is_symlink() and not link.exists():
                    raise BaselineUnreadable(
                        "baseline-link-to-nowhere", path=self.disk.shown(link)
                    ) from None
            return None
        except OSError as error:
            raise BaselineUnreadable(
                "baseline-not-readable", path=self.disk.shown(path), strerror=error.strerror
            ) from error

    def _listed(self, path: Path, *, at_home: bool) -> ListedBaseline:
        found: Baseline | BaselineUnreadable
        try:
            content = self._content(path)
            if content is None:
                raise BaselineUnreadable("baseline-vanished", path=self.disk.shown(path))
            found = self.parse(content, path)
            if at_home and file_name(found.machine.slug) != path.parent.name:
                raise BaselineUnreadable(
                    "baseline-in-wrong-folder",
                    path=self.disk.shown(path),
                    slug=found.machine.slug,
                    gpu=found.machine.gpu_name,
                )
        except BaselineUnreadable as error:
            found = error
        if isinstance(found, Baseline):
            name, source = found.workload, found.source
        else:
            stem = path.name.removesuffix(".json")
            name, source = workload_of(stem) or stem, None
        slug = path.parent.name
        return ListedBaseline(slug=slug, workload=name, path=path, found=found, source=source)

    def _listing(self, folder: Path) -> list[Path]:
        """What is in a folder, but for what is hidden."""
        try:
            return [path for path in sorted(folder.iterdir()) if path.name[0] != "."]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BaselineUnreadable(
                "baseline-not-readable", path=self.disk.shown(folder), strerror=error.strerror
            ) from error
