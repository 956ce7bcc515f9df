"""Finding a program of NVIDIA's Nsight family, and its version; knows nothing of what it is run for."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perfgate.model.errors import PerfgateError
from perfgate.words import say

_VERSION: Final = re.compile(r"\bversion\s+(\d{4})\.(\d+)(?:\.(\d+))?(?:\.(\d+))?", re.IGNORECASE)


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A version of a Nsight program, ordered: 2024.2.3.38 is year 2024, major 2, minor 3, build 38."""

    year: int
    major: int
    minor: int = 0
    build: int = 0

    def __str__(self) -> str:
        return f"{self.year}.{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """Read what a program prints for `--version`; None where it says no version."""
        found = _VERSION.search(text)
        return cls(*(int(part or 0) for part in found.groups())) if found else None


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that answered with a version perfgate supports."""

    path: Path
    version: Version
    env: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The few variables (`Program.kept_variables`) that it reads captures and reports under; never the workload's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What has to be known of a program to find it."""

    name: str
    says: str
    """What it prints before its version."""
    oldest: Version
    places: tuple[str, ...]
    """Where NVIDIA's and the distributions' packages put it, as globs."""
    asked_by: tuple[str, ...]
    """What the user can name it by, as error messages list it."""
    kept_variables: tuple[str, ...]
    """All that it needs of the environment where it runs no workload: so secrets cannot reach its outputs."""
    get_one: str
    """What to do where there is none."""
    not_found: type[PerfgateError]
    unsupported: type[PerfgateError]

    def find(
        self,
        named: Sequence[tuple[str, str | None]],
        env: Mapping[str, str],
        *,
        places: Sequence[str],
        timeout_s: float,
    ) -> Tool:
        """Find it: what the user named, then PATH, then the newest in the usual places.

        What the user named is taken or is an error, never replaced by another. What was merely come upon is passed
        over if it does not run or is too old.

        Args:
            named: what names it and what it says, the strongest first.
            env: the environment.
            places: globs, searched in their order.
            timeout_s: how long it may take to tell its version, in seconds.

        Raises:
            PerfgateError: `not_found`, nothing there, or what was named does not run; `unsupported`, what was named, or
                all that was found, is too old or tells no version.
        """
        for source, name in named:
            if name:
                return self._checked(self._resolved(name, source, env), source, env, timeout_s)
        refused: list[PerfgateError] = []
        found: list[Tool] = []
        for source, path in self._candidates(env, places):
            try:
                tool = self._checked(path, source, env, timeout_s)
            except (self.not_found, self.unsupported) as error:
                refused.append(error)
                continue
            if source == "PATH":
                return tool
            found.append(tool)
        if found:
            return max(found, key=lambda tool: tool.version)
        for refusal in refused:
            if isinstance(refusal, self.unsupported):
                raise refusal
        usual = ", ".join(dict.fromkeys("/".join(place.split("/")[:3]) for place in places))
        looked = ", ".join((*self.asked_by, "PATH")) + (
            f", NVIDIA's usual folders in {usual}" if usual else ""
        )
        also = f"; passed over: {'; '.join(say.fact(each) for each in refused)}" if refused else ""
        raise self.not_found(
            subject=self.name, fact=f"not found in {looked}{also}", next_step=self.get_one
        )

    def _resolved(self, named: str, source: str, env: Mapping[str, str]) -> Path:
        """Turn what the user named into a path: a bare name is searched on PATH, anything else taken as it is."""
        if "/" not in named:
            on_path = shutil.which(named, path=env.get("PATH", ""))
            if on_path is not None:
                return Path(on_path)
        path = Path(named).expanduser()
        try:
            fact = "" if path.is_file() else "is a folder" if path.is_dir() else "does not exist"
        except OSError as refused:
            fact = f"cannot be looked at ({refused.strerror or refused})"
        if fact:
            raise self.not_found(
                subject=f"{self.name} {named} (from {source})",
                fact=fact,
                expectation=f"Expected the {self.name} program",
                next_step=f"Correct {source}, or leave it out to search PATH and NVIDIA's usual folders.",
            )
        return path.absolute()

    def _candidates(
        self, env: Mapping[str, str], places: Sequence[str]
    ) -> Iterator[tuple[str, Path]]:
        seen: set[Path] = set()
        for folder in env.get("PATH", "").split(":"):
            on_path = shutil.which(self.name, path=folder) if folder else None
            if on_path is not None and (path := Path(on_path).absolute()).resolve() not in seen:
                seen.add(path.resolve())
                yield "PATH", path
        for place in places:
            for path in sorted(Path("/").glob(place.lstrip("/"))):
                if path.is_file() and path.resolve() not in seen:
                    seen.add(path.resolve())
                    yield place, path

    def _checked(self, path: Path, source: str, env: Mapping[str, str], timeout_s: float) -> Tool:
        subject = f"{self.name} {path} (from {source})"
        kept = {name: env[name] for name in self.kept_variables if name in env}
        asked = f"`{self.name} --version`"
        try:
            answer = subprocess.run(
                [path, "--version"],
                env={**kept, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            fact = f"{asked} gave no answer within {timeout_s:g} s"
        except OSError as error:
            fact = f"does not run: {error.strerror or error}"
        else:
            text = answer.stdout.decode(errors="replace").strip()
            version = Version.parse(text)
            if version is None and answer.returncode != 0:
                said = text.splitlines()[-1] if text else "it said nothing"
                fact = f"{asked} ended with status {answer.returncode}: {said}"
            elif version is None:
                raise self.unsupported(
                    subject=subject,
                    fact=f"{asked} tells no version: {text.splitlines()[0] if text else 'it said nothing'}",
                    expectation=f"Expected '{self.says} {self.oldest.year}.{self.oldest.major}' or newer",
                    next_step=self.get_one,
                )
            elif version < self.oldest:
                raise self.unsupported(
                    subject=subject,
                    fact=f"is version {version}",
                    expectation=f"perfgate knows {self.oldest.year}.{self.oldest.major} and newer",
                    next_step=self.get_one,
                )
            else:
                return Tool(path, version, kept)
        raise self.not_found(subject=subject, fact=fact, next_step=self.get_one)
