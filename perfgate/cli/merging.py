"""`perfgate merge`: one verdict and one page of several gates."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from perfgate.bless.gates import find_gates
from perfgate.bless.merge import merge, merged_page
from perfgate.cli.terminal import PATH, new_page, show
from perfgate.model.errors import EXIT_SHUT, ConfigInvalid
from perfgate.model.options import OPTIONS
from perfgate.model.secrets import Cleaner
from perfgate.plugin.outputs import OutputFormat, outputs_of, write_outputs
from perfgate.render.text import merged_text
from perfgate.words import escape

Command = TypeVar("Command", bound=Callable[..., object])


def _files(command: Command) -> Command:
    """Give a command the options of a gate's files, as the table of options has them, and JUnit."""
    helps = {option.name: option.help for option in OPTIONS}
    for form in reversed(OutputFormat):
        text = helps.get(form.replace("-", "_"), "write verdicts as JUnit XML to FILE")
        text = f"{text[0].upper()}{text[1:]}."
        command = click.option(f"--{form}", type=PATH, metavar="FILE", help=text)(command)
    return command


@click.command("merge")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=PATH)
@click.option(
    "--expect", type=click.IntRange(min=1), metavar="N", help="How many gates there should be."
)
@_files
def merge_gates(folders: tuple[Path, ...], *, expect: int | None, **files: Path | None) -> None:
    """Make one verdict of gates that were measured apart.

    Each FOLDER holds the perfgate.json of a gate (pytest --perfgate-json), and the page.json of
    --perfgate-page-data where there is one, or folders that do.
    """
    try:
        outputs = outputs_of("--", files.get)
    except ConfigInvalid as refused:
        raise click.UsageError(str(refused)) from None
    found, unread = find_gates(folders)
    cleaner = Cleaner(os.environ)  # what wrote a gate's files may have known of no secrets
    merged = cleaner.record(merge(found, unread=unread, expect=expect, at=datetime.now(UTC)))

    document = write_outputs(
        outputs, merged, lambda document: cleaner.record(merged_page(document, found=found))
    )
    # Documents may be a stranger's, and this a job's log.
    show(escape.without_commands(merged_text(new_page(), document)))
    if not document.opens_gate:
        sys.exit(EXIT_SHUT)
