"""Baselines and kept results on disk: whole, sealed, never silently overwritten; knows nothing of how they are judged.

Baselines are files of record and belong in git; kept results are candidates for one and never leave the machine::

    baselines/<machine slug>/<workload>.json
    .perfgate/.gitignore                                     everything below is ignored
    .perfgate/results/<machine slug>/<workload>/<UTC time>-<random>/result.json, and the captures beside it
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from pydantic import ValidationError

from perfgate.model.baseline import BASELINE_FORMAT, RESULT_FORMAT, Baseline, Result
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, ResultMissing, ResultUnreadable, StoreFailed
from perfgate.model.metric import COUNTS
from perfgate.model.record import TwinKeys, without_twins
from perfgate.model.verdict import Verdict

SEAL: Final = "seal"
"""The key of the file, not of the record, that holds the SHA-256 of everything else in it."""
DIGITS: Final = 6
"""Significant digits of a time: a millionth of it, where the finest SD that is ever assumed is 0.05 %."""
LONGEST_NAME: Final = 200
"""Bytes of a file name before `.json`; file systems take 255."""
KEPT_RESULTS: Final = 20
"""Kept results per workload and machine: four for each of the five occasions that a good baseline wants."""
KEPT_CAPTURES: Final = 2
"""Of these, how many keep their captures (tens of MB a run): the latest and the one it is compared with."""
ABANDONED: Final = timedelta(hours=24)
"""Age from which a folder without a result is what an interrupted gate left, not one that is being filled."""
RESULT_FILE: Final = "result.json"

_RESULT_FOLDER = re.compile(r"(\d{8}T\d{6}\.\d{6})Z-[0-9a-f]{6}")
_TIME = "%Y%m%dT%H%M%S.%f"
_CONFLICT = re.compile(rb"^(?:<<<<<<<|>>>>>>>)(?: |$)", re.MULTILINE)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedBaseline:
    """One baseline file and what came of reading it."""

    slug: str
    workload: str
    """The workload's id; the file's name where the file cannot say it and the name was too long to hold it."""
    path: Path
    found: Baseline | BaselineUnreadable


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptResult:
    """One kept result and its folder."""

    folder: Path
    result: Result


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedResult:
    """One folder of a kept result and what came of reading it."""

    folder: Path
    found: Result | ResultUnreadable


class _NotJson(ValueError):
    """JSON that Python would accept and perfgate does not: NaN, or something other than an object."""


def file_name(name: str) -> str:
    """Return a workload's id as a file name without suffix: `mlp[4-64]`, `a%2Fb`; undone by `workload_of`.

    Letters, digits and `- _ . = , [ ]` stay, anything else (and a leading dot) is percent-encoded as UTF-8. A name of
    more than 200 bytes is cut and ends in `~` and 16 hex digits of its SHA-256.

    Raises:
        ValueError: the id is empty.
    """
    if not name:
        raise ValueError("A workload without an id has no file name.")
    encoded = quote(name, safe="[]=,", errors="surrogatepass").replace("~", "%7E")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= LONGEST_NAME:
        return encoded
    tail = "~" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    head = encoded[: LONGEST_NAME - len(tail)]
    return re.sub(r"%[0-9A-F]?$", "", head) + tail


def workload_of(encoded: str) -> str | None:
    """Return the id that `file_name` made a name of, None where it was cut."""
    return None if "~" in encoded else unquote(encoded, errors="surrogatepass")


def seal_of(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of a baseline's content (its file's JSON without the seal): blind to layout and key order.

    A guard against accidents and well-meant edits. It is no signature: who can write the file can seal it.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def baseline_content(baseline: Baseline) -> dict[str, object]:
    """Return what a baseline's file holds, without the seal.

    Times are rounded to 6 significant digits; counts are not, since they are compared exactly and one byte in
    38 million is a change. Whole numbers are written without a fraction.
    """
    content = _tidied(baseline.model_dump(mode="json"), exact=False)
    assert isinstance(content, dict)
    return content


def _tidied(value: object, *, exact: bool) -> object:
    match value:
        case dict():
            return {key: _tidied(item, exact=key in (*COUNTS, "bytes")) for key, item in value.items()}
        case list():
            return [_tidied(item, exact=exact) for item in value]
        case float():
            rounded = value if exact else float(f"{value:.{DIGITS}g}")
            return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
        case _:
            return value


def baseline_text(baseline: Baseline) -> str:
    """Return a baseline's file: sealed JSON with sorted keys, two spaces of indent and a final newline."""
    content = baseline_content(baseline)
    return json.dumps(content | {SEAL: seal_of(content)}, sort_keys=True, indent=2, allow_nan=False) + "\n"


class Store:
    """The two folders of one project."""

    def __init__(self, root: Path, baselines: str) -> None:
        """Take the project's root and, relative to it, the folder of the baselines."""
        self._root = root
        self._baselines = root / baselines
        self._kept = root / ".perfgate"

    # Baselines

    def baseline_path(self, slug: str, workload: str) -> Path:
        """Return where a workload's baseline on a machine lies, whether or not it does."""
        return self._baselines / file_name(slug) / f"{file_name(workload)}.json"

    def load_baseline(self, slug: str, workload: str) -> Baseline | None:
        """Return a workload's baseline on a machine, None where there is none.

        Whether the machine inside is that of the folder is for the judge to say, who names what differs.

        Raises:
            BaselineUnreadable: there is a file, and it is not the whole, unchanged baseline of this workload.
        """
        path = self.baseline_path(slug, workload)
        baseline = self._read_baseline(path, workload)
        return None if baseline is None else self._own(path, baseline)

    def read_baseline(self, path: Path) -> Baseline:
        """Return the baseline in any file, under whatever name: one of another branch or project, to be looked at.

        Raises:
            BaselineMissing: there is no such file.
            BaselineUnreadable: the file is not a whole, unchanged baseline.
        """
        baseline = self._read_baseline(path, None)
        if baseline is None:
            raise BaselineMissing(
                subject=self._told(path),
                fact="there is no such file",
                expectation="A baseline was expected there",
                next_step="Check the path; perfgate show lists the baselines of this project.",
            )
        return baseline

    def own_baseline(self, path: Path) -> Baseline:
        """Return the baseline in a file that bears the name of its workload.

        Raises:
            BaselineMissing: there is no such file.
            BaselineUnreadable: the file is not a whole, unchanged baseline, or is that of another workload.
        """
        return self._own(path, self.read_baseline(path))

    def baseline_in(self, content: bytes, path: Path) -> Baseline:
        """Return the baseline in what such a file once held; `path` is what messages call it, and tells the workload.

        Raises:
            BaselineUnreadable: it is not a whole, unchanged baseline, or is that of another workload.
        """
        return self._own(path, self._opened(path, content, None))

    def baselines(self, slug: str | None = None) -> tuple[ListedBaseline, ...]:
        """Return every baseline of one machine or of all, by folder and name, the unreadable ones with their error.

        Raises:
            BaselineUnreadable: a folder cannot be listed.
        """
        listed: list[ListedBaseline] = []
        for folder in self._slug_folders() if slug is None else (self._baselines / file_name(slug),):
            files = [path for path in self._listing(folder) if path.suffix == ".json" and path.name[0] != "."]
            listed += [self._listed(folder.name, path) for path in files]
        return tuple(listed)

    def other_machines(self, workload: str, *, besides: str | None = None) -> tuple[str, ...]:
        """Return the slugs of the machines, but for one, that have a baseline of this workload.

        Raises:
            BaselineUnreadable: the folder of the baselines cannot be listed.
        """
        name = f"{file_name(workload)}.json"
        return tuple(
            folder.name for folder in self._slug_folders() if folder.name != besides and os.path.lexists(folder / name)
        )

    def save_baseline(self, baseline: Baseline, *, replacing: Baseline | None) -> Path:
        """Write a baseline and return its path; the old file is whole until the new one is.

        Args:
            baseline: what to write, into the folder of its own machine.
            replacing: the baseline that was loaded from there before, None where there was none.

        Raises:
            StoreFailed: the disk did not take it, the file there is no longer `replacing`, or is a link. Nothing has
                changed.
            BaselineUnreadable: the file that would be replaced is broken; it is left as it is.
        """
        path = self.baseline_path(baseline.machine.slug, baseline.workload)
        if path.is_symlink():
            raise StoreFailed(
                subject=self._told(path),
                fact="it is a link",
                expectation="What it leads to may be others' too, so it is neither written nor replaced",
                next_step="Put a copy of that file in its place, or delete the link; then bless again.",
            )
        self._make_folder(path.parent)
        with self._alone_in(path.parent):
            current = self.load_baseline(baseline.machine.slug, baseline.workload)
            if _seal(current) != _seal(replacing):
                raise StoreFailed(
                    subject=self._told(path),
                    fact="it was deleted" if current is None else "another baseline was written",
                    expectation="The file is no longer what the new baseline was compared with; nothing was changed",
                    next_step="Look at what is there now (git log, perfgate show), then bless again.",
                )
            self._write(path, baseline_text(baseline))
        return path

    # Kept results

    def new_folder(self, workload: str, slug: str, *, at: datetime) -> Path:
        """Make and return a fresh folder for one gate's captures and its result; `at` is aware and becomes its name.

        Raises:
            StoreFailed: the disk did not take it.
        """
        self._make_folder(self._kept)
        ignore = self._kept / ".gitignore"
        if not ignore.exists():
            self._write(ignore, "*\n")
        name = f"{at.astimezone(UTC).strftime(_TIME)}Z-{secrets.token_hex(3)}"
        folder = self._results_folder(slug, workload) / name
        self._make_folder(folder.parent)
        try:
            folder.mkdir()
        except OSError as error:
            raise self._failed(folder, error) from error
        return folder

    def save_result(self, result: Result, folder: Path) -> Path:
        """Write a result into the folder that `new_folder` made for it, then forget old ones; return its path.

        Of a workload on a machine, 20 results stay, and the captures of the latest 2. Folders that an interrupted gate
        left without a result go after a day. The new result and its captures always stay.

        Raises:
            StoreFailed: the disk did not take it.
        """
        path = folder / RESULT_FILE
        self._write(path, result.model_dump_json(indent=1) + "\n")
        _forget_old(folder, now=result.measured_at)
        return path

    def save_verdict(self, verdict: Verdict, folder: Path) -> None:
        """Write another verdict into the result in a folder: what its gate came to know once all were judged.

        Raises:
            StoreFailed: the disk did not take it.
            ResultMissing: there is no result in it any more.
            ResultUnreadable: it is not whole any more.
        """
        result = self.load_result(folder)
        self._write(
            folder / RESULT_FILE, result.model_copy(update={"verdict": verdict}).model_dump_json(indent=1) + "\n"
        )

    def load_result(self, path: Path) -> Result:
        """Return the result in a file or folder.

        Raises:
            ResultMissing: there is no such file.
            ResultUnreadable: the file is not a whole result of a format that this perfgate reads.
        """
        file = path / RESULT_FILE if path.is_dir() else path
        told = self._told(file)
        try:
            raw = _bytes_of(file)
        except FileNotFoundError as error:
            raise ResultMissing(subject=told, fact="there is no such file", next_step=_MEASURE_AGAIN) from error
        except OSError as error:
            fact = f"the kept result cannot be read ({error.strerror})"
            raise ResultUnreadable(subject=told, fact=fact, next_step=_MEASURE_AGAIN) from error
        return self.result_in(raw, file)

    def result_in(self, raw: bytes, path: Path) -> Result:
        """Return the result in what such a file once held; `path` is what messages call it.

        Raises:
            ResultUnreadable: it is not a whole result of a format that this perfgate reads.
        """
        told, again = self._told(path), _MEASURE_AGAIN
        try:
            content = _parsed(raw)
            number = _format_of(content)
            if number is not None and number > RESULT_FORMAT:
                raise ResultUnreadable(
                    subject=told,
                    fact=f"the kept result has format {number}",
                    expectation=f"This perfgate reads format {RESULT_FORMAT}",
                    next_step="Upgrade perfgate, or measure again with this one: pytest --perfgate",
                )
            return Result.model_validate(content)
        except ValidationError as error:
            fact = f"the kept result does not fit: {_first_complaint(error)}"
            raise ResultUnreadable(subject=told, fact=fact, next_step=again) from error
        except (ValueError, RecursionError) as error:
            fact = f"the kept result is broken: {_json_complaint(raw, error)}"
            raise ResultUnreadable(subject=told, fact=fact, next_step=again) from error

    def results(self, workload: str, slug: str | None = None) -> tuple[ListedResult, ...]:
        """Return a workload's kept results on one machine or on all, newest first, the unreadable with their error."""
        return tuple(self._listed_result(folder) for folder in self._result_folders(workload, slug))

    def latest_result(self, workload: str, slug: str | None = None) -> KeptResult | None:
        """Return the newest kept result, None where there is none.

        Raises:
            ResultUnreadable: the newest is broken; an older one is never taken in its place.
        """
        folder = next(iter(self._result_folders(workload, slug)), None)
        return None if folder is None else KeptResult(folder=folder, result=self.load_result(folder))

    def kept_workloads(self, slug: str | None = None) -> tuple[str, ...]:
        """Return the ids of the workloads that have a kept result on one machine or on any, sorted."""
        found: set[str] = set()
        for machine in self._result_slugs(slug):
            for folder in _folders(machine):
                kept = _with_result(folder)
                name = workload_of(folder.name)
                if kept and name is None:
                    listed = self._listed_result(kept[0]).found
                    name = listed.workload.id if isinstance(listed, Result) else folder.name
                if kept and name is not None:
                    found.add(name)
        return tuple(sorted(found))

    # Reading

    def _read_baseline(self, path: Path, workload: str | None) -> Baseline | None:
        try:
            raw = _bytes_of(path)
        except FileNotFoundError:
            for link in (self._baselines, path.parent, path):
                if link.is_symlink() and not link.exists():
                    raise BaselineUnreadable(
                        subject=self._told(link),
                        fact="it is a link to nowhere",
                        expectation="Whether there is a baseline behind it cannot be told",
                        next_step="Restore what it leads to, or delete the link.",
                    ) from None
            return None
        except OSError as error:
            raise BaselineUnreadable(
                subject=self._told(path),
                fact=f"the baseline cannot be read ({error.strerror})",
                next_step="Make it a file that this user may read.",
            ) from error
        return self._opened(path, raw, workload)

    def _own(self, path: Path, baseline: Baseline) -> Baseline:
        """Return a baseline whose file bears the name of its workload."""
        if file_name(baseline.workload) != path.name.removesuffix(".json"):
            raise BaselineUnreadable(
                subject=self._told(path),
                fact=f"the baseline in it is that of {baseline.workload}",
                expectation="A renamed workload is another workload, with a baseline of its own",
                next_step=self._restore(path, workload_of(path.stem)),
            )
        return baseline

    def _restore(self, path: Path, workload: str | None) -> str:
        told = shlex.quote(self._told(path))
        return f"Restore it (git checkout HEAD -- {told}, or from an older commit), or delete it, {_anew(workload)}"

    def _opened(self, path: Path, raw: bytes, workload: str | None) -> Baseline:
        """Return the baseline in a file's bytes; `workload` is what messages call it, None where that is not known."""
        told, quoted = self._told(path), shlex.quote(self._told(path))
        restore = self._restore(path, workload)
        if raw.startswith(_LFS_POINTER):
            raise BaselineUnreadable(
                subject=told,
                fact="the file is a Git LFS pointer, not the baseline",
                expectation="A baseline is a few KB and belongs in git itself",
                next_step="Fetch it: git lfs pull",
            )
        if conflict := _CONFLICT.search(raw):
            raise BaselineUnreadable(
                subject=told,
                fact=f"the file holds merge-conflict markers (line {_line(raw, conflict.start())})",
                expectation="Two baselines cannot be merged: each is one measurement",
                next_step=f"Keep one of them: git checkout --ours -- {quoted} (or --theirs). Where the markers are "
                f"committed, take it from a commit without them: git checkout COMMIT -- {quoted}",
            )
        try:
            content = _parsed(raw)
        except (ValueError, RecursionError) as error:
            raise BaselineUnreadable(
                subject=told, fact=f"the baseline is broken: {_json_complaint(raw, error)}", next_step=restore
            ) from error
        number = _format_of(content)
        if number is None:
            raise BaselineUnreadable(
                subject=told,
                fact="the file is no baseline of perfgate",
                expectation="A baseline is a JSON object with a format number",
                next_step=restore,
            )
        if number != BASELINE_FORMAT:
            newer = number > BASELINE_FORMAT
            raise BaselineUnreadable(
                subject=told,
                fact=f"the baseline has format {number}",
                expectation=f"This perfgate reads format {BASELINE_FORMAT}",
                next_step=f"Upgrade perfgate, or delete the file, {_anew(workload)}" if newer else restore,
            )
        seal = content.pop(SEAL, None)
        try:
            baseline = Baseline.model_validate(content)
        except ValidationError as error:
            unknown = [_place(e["loc"]) for e in error.errors() if e["type"] == "extra_forbidden"]
            if unknown:
                fact = f"the baseline holds what this perfgate does not know: {', '.join(unknown[:3])}"
            else:
                fact = f"the baseline does not fit: {_first_complaint(error)}"
            raise BaselineUnreadable(subject=told, fact=fact, next_step=restore) from error
        if seal != seal_of(content):
            raise BaselineUnreadable(
                subject=told,
                fact="the baseline has no seal" if seal is None else "the baseline was changed after it was blessed",
                expectation="Its seal must match its content: a baseline is measured and blessed, never edited",
                next_step=restore,
            )
        return baseline

    def _listed(self, slug: str, path: Path) -> ListedBaseline:
        name = workload_of(path.name.removesuffix(".json"))
        found: Baseline | BaselineUnreadable
        try:
            read = self._read_baseline(path, name)
            found = self._own(path, read) if read is not None else self._vanished(path)
        except BaselineUnreadable as error:
            found = error
        if name is None:
            name = found.workload if isinstance(found, Baseline) else path.name.removesuffix(".json")
        return ListedBaseline(slug=slug, workload=name, path=path, found=found)

    def _vanished(self, path: Path) -> BaselineUnreadable:
        return BaselineUnreadable(
            subject=self._told(path),
            fact="the file was listed and is gone",
            next_step="Run again.",
        )

    def _listed_result(self, folder: Path) -> ListedResult:
        try:
            return ListedResult(folder=folder, found=self.load_result(folder))
        except ResultUnreadable as error:
            return ListedResult(folder=folder, found=error)
        except ResultMissing as error:
            gone = ResultUnreadable(subject=error.subject, fact=error.fact, next_step=error.next_step)
            return ListedResult(folder=folder, found=gone)

    def _slug_folders(self) -> tuple[Path, ...]:
        return tuple(path for path in self._listing(self._baselines) if path.is_dir() and path.name[0] != ".")

    def _listing(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BaselineUnreadable(
                subject=self._told(folder),
                fact=f"the folder cannot be listed ({error.strerror})",
                next_step="Make it a folder that this user may read.",
            ) from error

    def _results_folder(self, slug: str, workload: str) -> Path:
        return self._kept / "results" / file_name(slug) / file_name(workload)

    def _result_slugs(self, slug: str | None) -> tuple[Path, ...]:
        results = self._kept / "results"
        return _folders(results) if slug is None else (results / file_name(slug),)

    def _result_folders(self, workload: str, slug: str | None) -> list[Path]:
        found = [
            folder for machine in self._result_slugs(slug) for folder in _with_result(machine / file_name(workload))
        ]
        return sorted(found, key=lambda folder: folder.name, reverse=True)

    def _told(self, path: Path) -> str:
        """Return a path as messages show it: from the root, where it lies below it."""
        return (path.relative_to(self._root) if path.is_relative_to(self._root) else path).as_posix()

    # Writing

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(folder, error) from error

    @contextmanager
    def _alone_in(self, folder: Path) -> Iterator[None]:
        """Keep other perfgates out of a folder between the comparison with the old file and its replacement."""
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._failed(folder, error) from error
        try:
            # Some network file systems lock no folders; the comparison still holds, only less tightly.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, path: Path, text: str) -> None:
        """Write a whole file or none: beside its place, to the disk, then into its place."""
        temporary = path.with_name(f".perfgate-{secrets.token_hex(6)}.tmp")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise self._failed(path, error) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)

    def _failed(self, path: Path, error: OSError) -> StoreFailed:
        fact, next_step = _CAUSES.get(
            error.errno or 0, (f"it could not be written ({error.strerror})", "See to it, then run again.")
        )
        return StoreFailed(
            subject=self._told(path),
            fact=fact,
            expectation="What was there before is unchanged",
            next_step=next_step,
        )


_MEASURE_AGAIN: Final = "Measure again: pytest --perfgate"
_FULL = ("the disk is full", "Free some space (old captures lie under .perfgate/results), then run again.")
_FORBIDDEN = ("this user may not write there", "Make the folder writable for this user, then run again.")
_IN_THE_WAY = ("a file stands where a folder must be", "Move it away, then run again.")
_CAUSES: Mapping[int, tuple[str, str]] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: ("the disk quota is used up", _FULL[1]),
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: ("the file system is read-only", "Run where the project can be written to."),
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.EISDIR: ("a folder stands where the file must be", "Move it away, then run again."),
}


def _anew(workload: str | None) -> str:
    return f'gate once more and bless anew: perfgate bless {shlex.quote(workload or "WORKLOAD")} --reason "..."'


def _seal(baseline: Baseline | None) -> str | None:
    return None if baseline is None else seal_of(baseline_content(baseline))


def _bytes_of(path: Path) -> bytes:
    """A file's content; of a pipe or a device nobody knows when it ends.

    Raises:
        OSError: it cannot be read, or is none.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "It is no plain file", str(path))
    return path.read_bytes()


def _parsed(raw: bytes) -> dict[str, object]:
    """Return a JSON object, strictly; a byte-order mark and any line ends are no harm.

    Raises:
        ValueError: not UTF-8, not JSON, not an object, NaN, or one key twice.
        RecursionError: nested beyond reason.
    """
    content: object = json.loads(
        raw.decode("utf-8-sig"), object_pairs_hook=without_twins, parse_constant=_no_constant, parse_float=_finite
    )
    if not isinstance(content, dict):
        raise _NotJson("it is not a JSON object")
    return content


def _no_constant(name: str) -> object:
    raise _NotJson(f"it holds {name}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotJson(f"it holds {text[:20]}, which is beyond a number's range")
    return number


def _json_complaint(raw: bytes, error: ValueError | RecursionError) -> str:
    if not raw.strip():
        return "it is empty"
    match error:
        case json.JSONDecodeError():
            at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
            return f"its JSON {'ends too early' if at_end else 'is malformed'} (line {error.lineno}: {error.msg})"
        case UnicodeDecodeError():
            return f"it is not UTF-8 (byte {error.start})"
        case _NotJson() | TwinKeys():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return f"it is malformed ({error})"


def _format_of(content: Mapping[str, object]) -> int | None:
    number = content.get("format")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _first_complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{_place(first['loc'])}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _place(location: tuple[int | str, ...]) -> str:
    """Return where in a file something is, as `occasions[0].runs[2].values`."""
    told = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return told.removeprefix(".") or "the whole"


def _line(raw: bytes, position: int) -> int:
    return raw.count(b"\n", 0, position) + 1


def _folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders in a folder by name, none where it does not exist; links are not followed."""
    try:
        return tuple(sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()))
    except OSError:
        return ()


def _with_result(folder: Path) -> list[Path]:
    """Return the folders of kept results in a workload's folder, newest first."""
    kept = [path for path in _folders(folder) if _RESULT_FOLDER.fullmatch(path.name)]
    return [path for path in reversed(kept) if (path / RESULT_FILE).exists()]


def _forget_old(newest: Path, *, now: datetime) -> None:
    """Delete what is beyond the limits beside a result just saved; what cannot be deleted is no reason to fail."""
    others = [path for path in _with_result(newest.parent) if path != newest]
    for age, folder in enumerate(others, start=1):
        if age >= KEPT_RESULTS:
            shutil.rmtree(folder, ignore_errors=True)
        elif age >= KEPT_CAPTURES:
            _drop_captures(folder)
    for folder in _folders(newest.parent):
        made = _RESULT_FOLDER.fullmatch(folder.name)
        if made is None or (folder / RESULT_FILE).exists():
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


def _sync_folder(folder: Path) -> None:
    """Put a rename on the disk; a file system that cannot has it in its own time."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
