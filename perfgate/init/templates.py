"""Template files of the scaffold: places filled through YAML, and a first line that seals what was
written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

FOLDER: Final = Path(__file__).parent
EXAMPLE: Final = FOLDER / "example.py"
START: Final = "perfgate.yml"
"""The workflow that starts the gate, and held it in older scaffolds."""
GATE: Final = "perfgate-gate.yml"
WORKFLOWS: Final = (
    *(START, GATE, "perfgate-approved.yml"),
    *("perfgate-comment.yml", "perfgate-bless.yml", "perfgate-occasions.yml"),
)
ACTION: Final = "action.yml"
FURTHER: Final = (START, GATE, "perfgate-approved.yml")
"""The workflows of a further project of a repository: comments, blessing and occasions are the
first one's."""

_PLACE: Final = re.compile(r"(?P<before>[ ]*(?:- )?)(?P<key>[\w-]+: |- )__(?P<name>[a-z_]+)__")
"""A place: the whole value of a key or of an item, alone in its line."""
_SEAL: Final = re.compile(
    r"# perfgate init (?P<version>[^\s:]+): .*\bsealed (?P<seal>[0-9a-f]{16})\b.*"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """What the first line of a file says of its writer."""

    version: str
    intact: bool
    """Whether the rest is as it was written, line ends aside."""


def template(name: str) -> str:
    """Return a template file's text."""
    return (FOLDER / "files" / name).read_text(encoding="utf-8")


def slug(folder: str) -> str:
    """What the workflows of a further project are called by, of its folder."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", folder).strip("-") or "top"


def file_of(name: str, project: str) -> str:
    """Return what a workflow's file is called for a further project."""
    return name.replace("perfgate", f"perfgate-{project}", 1)


def of_project(text: str, project: str) -> str:
    """Return a workflow under names of a further project: its own, its check's, its files', its
    groups' but for GPUs.

    Artifacts are a run's own, and their names may stay.
    """
    named = re.sub(r"(?m)^((?:    )?name: perfgate)\b", rf"\1 {project}", text)
    named = named.replace("perfgate / Verdict", f"perfgate {project} / Verdict")
    named = re.sub(r"(group: perfgate)(?=-\$)", rf"\1-{project}", named)
    return re.sub(r"\bperfgate((?:-gate|-approved)?\.yml)", rf"perfgate-{project}\1", named)


def filled(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """Put values into the places of a template: a value becomes that text, or that list, whatever
    is in it."""
    return "\n".join(
        line
        if (place := _PLACE.fullmatch(line)) is None
        else f"{place['before']}{place['key']}{_dumped(values[place['name']], place)}"
        for line in text.split("\n")
    )


def verbatim(text: str) -> str:
    """Return a text that GitHub, which evaluates expressions, takes as it is."""
    return text.replace("${{", "${{ '${{' }}")


def branch_pattern(branch: str) -> str:
    """Return the filter pattern of GitHub's `branches` that means this branch and no other."""
    return re.sub(r"[*?+\[\]!\\]", r"\\\g<0>", branch)


def sealed(text: str, *, version: str) -> str:
    """Return a text under a first line that says which perfgate wrote it, and what."""
    return (
        f"# perfgate init {version}: written by it, sealed {_digest(text)}. "
        f"perfgate init --check says what a newer one would change.\n{text}"
    )


def seal_of(text: str) -> Seal | None:
    """Return what a file's first line says; None of a file that perfgate init did not write."""
    first, _, rest = _plain(text).partition("\n")
    found = _SEAL.fullmatch(first)
    return (
        None
        if found is None
        else Seal(version=found["version"], intact=found["seal"] == _digest(rest))
    )


def same(one: str, other: str) -> bool:
    """Whether two texts are the same but for their line ends."""
    return _plain(one) == _plain(other)


def _digest(text: str) -> str:
    return hashlib.sha256(_plain(text).encode()).hexdigest()[:16]


def _plain(text: str) -> str:
    return text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n")


def _dumped(value: str | Sequence[str], place: re.Match[str]) -> str:
    """A value as YAML behind its key, of which the lines of a text of several are indented deeper."""
    held = value if isinstance(value, str) else list(value)
    dumped = yaml.dump({0: held}, Dumper=_Dumper, allow_unicode=True, width=2**31)
    first, *rest = dumped.removeprefix("0: ").removesuffix("\n").split("\n")
    indent = " " * len(place["before"])
    return "\n".join((first, *(indent + line if line else "" for line in rest)))


class _Dumper(yaml.SafeDumper):
    """Writes a text in quotes, or as a block if it is a script: nobody then takes `on` or `1e3` for
    no text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Choose the style of a text."""
        is_script = text.endswith("\n") and not text.endswith("\n\n") and not text[0].isspace()
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_script else '"')

    def represent_texts(self, texts: list[str]) -> yaml.SequenceNode:
        """Write a list in one line."""
        return self.represent_sequence("tag:yaml.org,2002:seq", texts, flow_style=True)


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_representer(list, _Dumper.represent_texts)
