"""Draws docs/red-gate.png, the picture of a red gate: what `perfgate demo` prints of its recorded
captures.

python -m benchmarks.red_gate_picture        # needs Chromium
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "red-gate.png"
COLUMNS, LINES = 88, 18
PAGE = (
    '<html><body style="margin:0;background:#0c0c0c"><pre style="margin:16px;color:#d9d9d9;'
    'font:15px/20px DejaVu Sans Mono,monospace">{code}</pre></body></html>'
)


def red_gate() -> Text:
    """Return the demo's red gate, as a terminal shows it, down to the lines under its table."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "perfgate", "demo"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    shown = Text.from_ansi(done.stdout)
    lines = shown.split("\n")
    start = next(n for n, line in enumerate(lines) if line.plain.startswith("mlp: REGRESSED"))
    picture = Text("\n").join([Text("$ pytest --perfgate"), *lines[start : start + LINES]])
    picture.highlight_words(["REGRESSED"], "bold bright_red")
    picture.highlight_words(["PASSED"], "bright_green")
    return picture


def draw(text: Text, picture: Path) -> None:
    """Let Chromium draw the text as it stands in a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(text)
    code = console.export_html(theme=MONOKAI, inline_styles=True, code_format=PAGE)
    browser = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(code, encoding="utf-8")
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--hide-scrollbars"),
                *("--force-device-scale-factor=2", f"--window-size=830,{20 * (LINES + 2) + 20}"),
                *(f"--screenshot={picture}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    draw(red_gate(), PICTURE)
