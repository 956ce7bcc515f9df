"""What secrets look like, and the one place that takes them out of text; knows names and values,
not who speaks."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Final, TypeVar, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

NEVER_WITHHELD: Final = frozenset(
    {
        "AWS_CA_BUNDLE",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOGNAME",
        "PATH",
        "PWD",
        "PYTHONPATH",
        "TMPDIR",
        "USER",
        "VIRTUAL_ENV",
    }
)
"""Names without which a workload does not start, or that only look like a secret's."""

GIT_CONFIG: Final = re.compile(r"GIT_CONFIG_(COUNT|(KEY|VALUE)_\d+)")
"""Names of settings of git's, such as `safe.directory`; their values may be secrets."""

_SECRET_NAME: Final = re.compile(
    r"PASS_?WORD|PASSWD|PASS_?PHRASE|SECRET|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY"
    r"|(?<![A-Z0-9])(?:CREDS|DSN|JWT|PASS|PAT|PWD|WEBHOOK)(?![A-Z0-9])"
)
"""In a name in capitals: PGPASSWORD, CLIENT_SECRET, API_KEY, DB_PASS, SENTRY_DSN."""
_DOUBTFUL_NAME: Final = re.compile(
    r"(?<![A-Z0-9])(?!TIKTOKEN)"
    r"(?:AUTH|BEARER|COOKIES?|KEYS?|OAUTH|PRIVATE|TOKENS|[A-Z0-9]*TOKEN)(?![A-Z0-9])"
)
"""Of secrets, but of settings too (MAX_TOKENS=4096): not where the value is a number or a switch.
TOKENIZERS, KEYBOARD, MONKEY, AUTHOR and XAUTHORITY are other words."""
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SWITCH: Final = re.compile(
    r"[+-]?\d{1,9}(\.\d+)?|true|false|yes|no|on|off|none|auto", re.IGNORECASE
)

UNNAMED: Final = "secret"
"""What stands in the place of one that is no variable's."""
_AROUND: Final = " \t\r\f\v|│┃║>'\"\\"
"""What stands at the ends of lines where a text was wrapped: indents, bars, quotes."""
_COLOUR: Final = r"\x1b\[[0-9;:?]*[A-Za-z]"
_WRAP: Final = (
    rf"(?<![{re.escape(_AROUND)}])(?:[{re.escape(_AROUND)}]++|{_COLOUR}){{0,20}}+"
    rf"\n(?:{_COLOUR}){{0,20}}+(?:E )?(?:[{re.escape(_AROUND)}\n]++|{_COLOUR}){{0,20}}+"
)
"""Where a line ends within what belongs together; pytest begins lines with an E."""
_INTERRUPTED: Final = re.compile(rf"{_WRAP}|{_COLOUR}|\\+")
"""What is left out of values and of texts before they are compared: without its backslashes, a
literal within others is the same, however deep."""

_BEGINS: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[abefnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9]m))"
)
"""Where a token begins: not within a word, but behind an escape, which may end in a letter."""
_STILL: Final = r"(?!\[hidden: )"
_IS: Final = r"\\?['\"]?\s{0,8}[:=]\s{0,8}\\?['\"]?"
"""Between a name and its value, in code, JSON and headers."""
_BASE64URL: Final = "[A-Za-z0-9_-]"


def _run(least: int, of: str = _BASE64URL) -> str:
    """So many characters of a token, also where lines end within it: what goes on must look like a
    token's part."""
    goes_on = rf"(?={of}{{0,4096}}[0-9])(?={of}{{0,4096}}[A-Za-z])"
    return rf"(?:(?:{_WRAP}{goes_on})?{of}){{{least},}}"


_PATTERNS: Final = (
    # user and password in a URL or connection string, or a token in place of both; or in its query
    (
        "://",
        rf"(?<=://)(?:[^/\s@:'\"<>]{{0,256}}:[^/\s@'\"<>]{{1,2048}}|{_BASE64URL}{{20,512}})(?=@)",
    ),
    (
        "sig= signature= token= key= password= secret= credential=",
        (
            r"[?&](?i:(?:[a-z]+[-_])*"
            r"(?:sig|signature|token|api_?key|key|password|secret|credential))="
            rf"({_STILL}[^&\s'\"<>]{{8,4096}})"
        ),
    ),
    # key=value connection strings
    (
        "password= accountkey= accesskey=",
        rf"(?i:\b(?:password|(?:shared)?(?:account|access)key))=({_STILL}[^;\s'\"]+)",
    ),
    ("authorization", rf"(?i:\bauthorization){_IS}(?i:basic|bearer|token)\s+({_STILL}[^\s'\"\\]+)"),
    ("bearer", r"(?i:\bbearer) ([A-Za-z0-9._~+/=-]{16,})"),
    # what a program's text names so itself, quoted
    (
        "passw passphrase secret key token",
        (
            r"(?i:(?<![A-Za-z])(?:password|passwd|passphrase|client_?secret|api_?key|access_?key"
            r"|access_?token|auth_?token|refresh_?token|private_?key|secret))"
            rf"{_IS}(?<=['\"])({_STILL}[^'\"\s\\]{{6,4096}})"
        ),
    ),
    ("secret", rf"(?i:secret_?access_?key){_IS}([A-Za-z0-9/+]{{40}})"),
    # GitHub, Hugging Face, npm, Stripe
    (
        "gho_ ghp_ ghr_ ghs_ ghu_ hf_ npm_ k_live_ k_test_",
        rf"{_BEGINS}(?:gh[oprsu]_|hf_|npm_|[sr]k_(?:live|test)_){_run(16, '[A-Za-z0-9]')}",
    ),
    # GitHub, GitLab, model providers, NVIDIA, Google, PyPI
    (
        "github_pat_ glpat- sk- nvapi- aiza ya29. gocspx- pypi-",
        rf"{_BEGINS}(?:github_pat_|glpat-|sk-|nvapi-|AIza|ya29\.|GOCSPX-|pypi-){_run(16)}",
    ),
    ("akia asia", rf"{_BEGINS}(?:AKIA|ASIA){_run(12, '[A-Z0-9]')}"),  # AWS
    ("xox xapp-", rf"{_BEGINS}(?:xox[abeoprs]|xapp)-{_run(8)}"),  # Slack
    ("hooks.slack.com/", rf"(?<=hooks\.slack\.com/)[A-Za-z]+/{_run(16, '[A-Za-z0-9/_-]')}"),
    # JSON web tokens
    ("eyj", rf"{_BEGINS}(?<![_-])(?:eyJ{_run(8)}\.){{2}}{_run(0)}"),
    (
        "private key-----",
        (
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
            r"(?:(?:[^-]|-(?!----)){0,40000}(?:-----END [A-Z ]{0,30}-----)?)"
        ),
    ),
)
"""What secrets look like, whatever their variable is called. Of a group, it is the secret.

Each comes with what is in lower case in every text that it matches: only such a text is searched.
Each takes a time that grows as the text does, whatever is in it.
"""

SHORTEST: Final = 6
"""Characters of a value that is looked for in texts: "1" and "true" are in all of them."""
SHORTEST_WITHIN: Final = 8
"""Of one that is looked for within words as well."""
SHORTEST_WORD: Final = 10
"""Of one of letters or digits alone: a setting's, or what is measured."""
_LIKE_WORD: Final = re.compile(r"[A-Za-z]+|[0-9][0-9.]*")
_CUT: Final = "(?:\\.\\.\\.|\u2026)"
"""Where a text was cut."""
_GOES_ON: Final = rf"[{re.escape(_AROUND)}\[\]<()]{{0,40}}"
"""What may stand between that and the rest."""
_CUT_BEHIND: Final = re.compile(_GOES_ON + _CUT)
_PARTS: Final = re.compile(
    r"(?i:\b[\w-]*(?:password|pwd|secret|key|token|bearer|basic|sig))"
    r"['\"]?[=: ]\s*['\"]?([^;,&\s'\"]+)"
    r"|://[^/\s@:]*:([^/\s]+)@"
)
"""What is a secret by itself within a value: what it names so, and a URL's password."""
LONG_LINE: Final = 20
"""Characters of a line that is one too, as those of keys are."""


@lru_cache(maxsize=4096)
def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by the tables above; an empty one never does."""
    if not value or name in NEVER_WITHHELD or name.startswith("GIT_CONFIG_KEY_"):
        return False
    capitals = _CAMEL.sub("_", name).upper()
    if capitals.startswith("AWS_") or _SECRET_NAME.search(capitals):
        return True
    if _DOUBTFUL_NAME.search(capitals) and not _SWITCH.fullmatch(value):
        return True
    return next(_patterned(value), None) is not None


def _patterned(text: str) -> Iterator[tuple[int, int]]:
    """Where a text holds what looks like a secret."""
    low = text.lower()
    for literals, pattern in _PATTERNS:
        if any(literal in low for literal in literals.split(" ")):
            searched = re.compile(pattern)  # once: `re` keeps it
            for found in searched.finditer(text):
                yield found.span(searched.groups)


T = TypeVar("T")


class Cleaner:
    """Takes out of texts the values of variables, and what looks like a secret by itself.

    A value is found as it is, as Python, JSON, a URL, base64 or hexadecimal digits write it, over
    the ends of lines, and its beginning and end where it was cut.
    """

    def __init__(
        self, env: Mapping[str, str] | None = None, pass_env: Collection[str] = ()
    ) -> None:
        """Take the variables that may be secrets: those that look so, and those that `pass_env`
        names."""
        self._env, self._pass_env = dict(env or {}), frozenset(pass_env)
        self._forms = {
            text: (name, cut)
            for name, value in self._env.items()
            if looks_secret(name, value) or (name in self._pass_env and name not in NEVER_WITHHELD)
            for part in _parts(name, value)
            for text, cut in _forms(part)
        }
        """By what a text may hold of a secret: its name, and how much of an end says that it is
        there; nothing of one that is only looked for as a word."""

    def knowing(self, env: Mapping[str, str], pass_env: Collection[str] = ()) -> Cleaner:
        """One that knows these variables as well, and takes more of them for secrets."""
        return Cleaner({**self._env, **env}, self._pass_env | {*pass_env})

    def clean(self, text: str) -> str:
        """The text without secrets: in the place of each stands the name of its variable."""
        spans = [(start, end, UNNAMED) for start, end in _patterned(text)]
        joined = _INTERRUPTED.sub("", text) if self._forms else ""
        places: Sequence[int] = ()
        for form, (name, cut) in self._forms.items():
            if not cut:
                word = re.finditer(rf"{_BEGINS}{re.escape(form)}(?![A-Za-z0-9])", text)
                spans += ((*found.span(), name) for found in word)
            elif form[:cut] in joined or form[-cut:] in joined:
                places = places or _places(text)
                spans += (
                    (places[start], places[end - 1] + 1, name)
                    for start, end in _held(form, cut, joined)
                )
        return _without(text, spans)

    def record(self, held: T) -> T:
        """A record, or what is made of such, with clean texts; values of enums are none."""
        texts: list[str] = []
        _changed(held, texts.append)
        together = "\x00".join(texts)
        return held if self.clean(together) == together else cast("T", _changed(held, self.clean))


def _changed(held: object, change: Callable[[str], object]) -> object:
    """A record or a container of such, each text of it changed."""
    match held:
        case BaseModel():
            return held.model_copy(update={name: _changed(of, change) for name, of in held})
        case str() if type(held) is str:
            return change(held)
        case Mapping():
            return {_changed(key, change): _changed(of, change) for key, of in held.items()}
        case tuple() if type(held) is tuple:
            return tuple(_changed(one, change) for one in held)
        case _:
            return held


def _parts(name: str, value: str) -> Iterator[str]:
    """A value and those of its parts that are secrets by themselves, as far as they are worth
    looking for."""
    with suppress(ValueError, OSError):  # a NUL, or too long for a path
        if Path(value).exists():
            return
    within = [part for found in _PARTS.finditer(value) for part in found.groups() if part]
    pairs: list[tuple[str, object]] = []
    with suppress(ValueError, RecursionError):
        json.loads(value, object_pairs_hook=pairs.extend)
    for key, held in pairs:
        texts = held if isinstance(held, list) else [held]
        within += [
            text
            for text in texts
            if isinstance(text, str) and looks_secret(key, text) and not text.startswith("http")
        ]
    lines = (line.strip() for one in (value, *within) for line in one.splitlines())
    within += [line for line in lines if len(line) >= LONG_LINE]
    for part in (value, *(part for part in within if "-----" not in part)):
        if len(part) >= SHORTEST and not _SWITCH.fullmatch(part) and not _is_common(name, part):
            yield part


def _is_common(name: str, value: str) -> bool:
    """Whether a value may be a word that any text holds: a number, or a setting's by its name."""
    if len(value) >= SHORTEST_WORD or not _LIKE_WORD.fullmatch(value):
        return False
    return value[0].isdigit() or not _SECRET_NAME.search(_CAMEL.sub("_", name).upper())


def _forms(value: str) -> Iterator[tuple[str, int]]:
    """A value as texts may hold it, without what may interrupt it, each with how much of its
    beginning or end stays where it is cut; 0 where it is no part of a longer word."""
    if len(value) < SHORTEST_WITHIN:
        if len(text := value.strip(_AROUND)) >= SHORTEST:
            yield text, 0
        return
    for written in _encoded(value):
        text = _INTERRUPTED.sub("", written).strip(_AROUND)
        if len(text) >= SHORTEST:
            is_whole = re.search(r"://|^/", text) is not None
            yield text, len(text) if is_whole else max(SHORTEST, min(12, len(text) // 2))


def _encoded(value: str) -> Iterator[str]:
    """The value as other texts hold it."""
    raw = value.encode(errors="surrogateescape")
    yield from (value, repr(value)[1:-1], json.dumps(value)[1:-1], repr(raw)[2:-1])
    for escaped in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield escaped
        yield re.sub("%..", lambda found: found[0].lower(), escaped)
    yield raw.hex()
    yield raw.hex().upper()
    for before in range(3):
        # Whatever stands before and behind: only the characters that it does not change.
        whole, left = b64encode(b"\0" * before + raw).decode(), (before + len(raw)) % 3
        core = whole[before + bool(before) :].rstrip("=")[: None if left == 0 else -1]
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _held(form: str, cut: int, text: str) -> Iterator[tuple[int, int]]:
    """Where a text holds a value, or its beginning or end next to where it was cut."""
    yield from _begun(form, cut, text)
    # An end is a beginning, read backwards.
    for start, end in _begun(form[::-1], cut, text[::-1]):
        yield len(text) - end, len(text) - start


def _begun(form: str, cut: int, text: str) -> Iterator[tuple[int, int]]:
    """Where a text holds a value, or its beginning next to where it was cut."""
    start = text.find(form[:cut])
    while start >= 0:
        same = form[: _alike(form, text[start : start + len(form)])]
        if same != form:
            same = same.rstrip(".")  # dots of its own may be those of the cut
        if same == form or _CUT_BEHIND.match(text, start + len(same)):
            yield start, start + len(same)
        start = text.find(form[:cut], start + cut)


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common from their first on."""
    return sum(takewhile(bool, map(eq, one, other)))


def _places(text: str) -> list[int]:
    """Where in a text each character stands that wrapping, colours and escapes did not put into
    it."""
    places: list[int] = []
    begin = 0
    for interruption in _INTERRUPTED.finditer(text):
        places += range(begin, interruption.start())
        begin = interruption.end()
    return [*places, *range(begin, len(text))]


def _without(text: str, spans: list[tuple[int, int, str]]) -> str:
    held: list[str] = []
    done = 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1], span[2] == UNNAMED)):
        if start >= done:
            held += [text[done:start], f"[hidden: {name}]"]
        done = max(done, end)
    return "".join((*held, text[done:]))
