"""What `perfgate init` shows of each file, of differences, and of what comes next. Returns, never
prints."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from perfgate.init import templates
from perfgate.init.facts import Facts
from perfgate.init.plan import GPU, Planned, State
from perfgate.model.note import note
from perfgate.words.escape import escape
from perfgate.words.say import message


def init_text(facts: Facts, files: Sequence[Planned], written: Sequence[Planned]) -> str:
    """Show what was written and what was left, with the differences, and what comes next."""
    words = ["written" if file in written else _left(file) for file in files]
    lines = [*_title(facts), *_rows(words, files)]
    for file in (file for file in files if file.differs):
        lines += ["", *_difference(file, facts.version)]
    left = tuple(str(file.path) for file in files if file.differs and file not in written)
    project = templates.slug(facts.folder.as_posix())
    is_further = any(file.path.name == templates.file_of(templates.GATE, project) for file in files)
    notes = [
        *([note("scaffold-left", files=left)] if left else []),
        *([note("further-project")] if is_further else []),
        *facts.notes,
    ]
    lines += ["", *_next_steps(facts, f"perfgate {project}" if is_further else "perfgate")]
    lines += ["", *(line for one in notes for line in message(one).splitlines())] if notes else []
    return _printable(lines)


def check_text(facts: Facts, files: Sequence[Planned]) -> str:
    """Show of each file whether it is up to date, and what is wrong with how it installs perfgate."""
    lines = [*_title(facts), *_rows([file.state.value for file in files], files), ""]
    for file in files:
        lines += [f"{file.path}: {message(fault)}" for fault in file.faults]
    lacking = sum(not file.is_up_to_date for file in files)
    if lacking and facts.top is not None and facts.origin.url is None:
        lines += message(facts.origin.unknown).splitlines()
    found = note("scaffold-lacks", files=len(files), lacking=lacking)
    lines += message(found if lacking else note("scaffold-complete")).splitlines()
    return _printable(lines)


def _title(facts: Facts) -> list[str]:
    where = f", below {facts.top}" if facts.top and facts.folder.parts else ""
    how = f" (branch {facts.branch}, Python {facts.python})" if facts.top else ""
    return [f"perfgate init in {facts.root}{where}{how}", ""]


def _rows(words: Sequence[str], files: Sequence[Planned]) -> list[str]:
    wide = max(map(len, words))
    return [f"  {word:<{wide}}  {file.path}" for word, file in zip(words, files, strict=True)]


def _left(file: Planned) -> str:
    same = file.state in {State.SAME, State.ANOTHERS} or not file.differs
    return "there already" if same else f"differs ({file.state})"


def _difference(file: Planned, version: str) -> list[str]:
    there, meant = (file.there or "").splitlines(), file.text.splitlines()
    names = {"fromfile": str(file.path), "tofile": f"{file.path} of perfgate init {version}"}
    return list(difflib.unified_diff(there, meant, **names, lineterm="", n=1))


def _next_steps(facts: Facts, check: str) -> Iterator[str]:
    around = (facts.root, *facts.root.parents)
    is_repository = any((folder / ".git").exists() for folder in around)
    # So that the baseline knows its commit.
    committed = " all this committed," if is_repository else ""
    yield f"Next, in {facts.root},{committed} on a machine with a GPU (perfgate doctor checks it):"
    yield "  pytest --perfgate"
    yield '  perfgate bless --reason "first baseline"'
    if facts.top is not None:
        gate = f"{check.replace(' ', '-')}-gate.yml"
        yield "On GitHub, once all this is committed:"
        yield f"  a runner with the labels self-hosted and {GPU}, with nsys and the GPU's driver;"
        yield f"  for more GPUs or shards of the workloads, the matrix in {gate};"
        yield f"  the check {check} / Verdict as a required one;"
        yield "  the label perfgate-approved, by which maintainers let one commit of a fork run;"
        yield '  "Allow GitHub Actions to create and approve pull requests" in the settings.'


def _printable(lines: Sequence[str]) -> str:
    """Lines as a text, without what would steer a terminal: names of files and branches are
    anybody's."""
    return "".join(escape(line.replace("\t", "    ")) + "\n" for line in lines)
