"""What secrets look like, and the one place that takes them out of text; knows names and values,
not who speaks."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

NEVER_WITHHELD: Final = frozenset(
    {
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_VISIBLE_DEVICES",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOGNAME",
        "OLDPWD",
        "PATH",
        "PWD",
        "PYTHONHOME",
        "PYTHONPATH",
        "SHELL",
        "TMPDIR",
        "USER",
        "VIRTUAL_ENV",
        "AWS_CA_BUNDLE",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    }
)
"""Names without which a workload does not start, or that only look like a secret's."""

GIT_CONFIG: Final = re.compile(r"GIT_CONFIG_(COUNT|(KEY|VALUE)_\d+)")
"""Names of settings of git's, such as `safe.directory`; their values may be secrets."""

_SECRET_NAME: Final = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|(?:API|ACCESS|PRIVATE)KEY"
    r"|(?<![A-Z0-9])(?:CREDS|DSN|JWT|PASS|PAT|PWD|WEBHOOK)(?![A-Z0-9])"
)
"""In a name in capitals, with or without its underscores: PGPASSWORD, CLIENT_SECRET, API_KEY,
DB_PASS, SENTRY_DSN."""
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
_INTERRUPTED: Final = re.compile(f"{_WRAP}|{_COLOUR}")

_BEGINS: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[abefnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9]m))"
)
"""Where a token begins: not within a word, but behind an escape, which may end in a letter."""
_STILL: Final = r"(?!\[hidden: )"
_IS: Final = r"\\?['\"]?\s{0,8}[:=]\s{0,8}\\?['\"]?"
"""Between a name and its value, in code, JSON and headers."""
_WORD: Final = "[A-Za-z0-9]"
_BASE64URL: Final = "[A-Za-z0-9_-]"


def _run(of: str, least: int) -> str:
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
        "gho_ ghp_ ghr_ ghs_ ghu_ hf_ npm_ sk_live_ sk_test_ rk_live_",
        rf"{_BEGINS}(?:gh[oprsu]_|hf_|npm_|[sr]k_(?:live|test)_){_run(_WORD, 16)}",
    ),
    # GitHub, GitLab, model providers, NVIDIA, Google, PyPI
    (
        "github_pat_ glpat- sk- nvapi- aiza ya29. gocspx- pypi-",
        (
            rf"{_BEGINS}(?:github_pat_|glpat-|sk-|nvapi-|AIza|ya29\.|GOCSPX-|pypi-)"
            rf"{_run(_BASE64URL, 16)}"
        ),
    ),
    ("akia asia", rf"{_BEGINS}(?:AKIA|ASIA){_run('[A-Z0-9]', 12)}"),  # AWS
    ("xox xapp-", rf"{_BEGINS}(?:xox[abeoprs]|xapp)-{_run('[A-Za-z0-9-]', 8)}"),  # Slack
    ("hooks.slack.com/", rf"(?<=hooks\.slack\.com/)[A-Za-z]+/{_run('[A-Za-z0-9/_-]', 16)}"),
    # JSON web tokens
    (
        "eyj",
        rf"{_BEGINS}(?<![_-])(?:eyJ{_run(_BASE64URL, 8)}\.){{2}}{_run(_BASE64URL, 0)}",
    ),
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
"""Of one of letters or digits alone whose name may be that of a setting."""
SHORTEST_NUMBER: Final = 12
"""Of one of digits alone: shorter ones are what is measured."""
_NUMBER: Final = re.compile(r"[0-9.]+")
_LIKE_WORD: Final = re.compile(r"[A-Za-z]+|[0-9][0-9.]*")
_DOTS: Final = ("...", "\u2026")
"""Where a text was cut."""
_NEXT_TO: Final = 40
"""Characters that may stand between that and the rest."""
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
    if capitals.startswith("AWS_") or _names_secret(capitals):
        return True
    if _DOUBTFUL_NAME.search(capitals) and not _SWITCH.fullmatch(value):
        return True
    return next(_patterned(value), None) is not None


def _names_secret(capitals: str) -> bool:
    """Whether a name in capitals is that of nothing but a secret."""
    return any(_SECRET_NAME.search(one) for one in (capitals, capitals.replace("_", "")))


def _patterned(text: str) -> Iterator[tuple[int, int]]:
    """Where a text holds what looks like a secret."""
    low = text.lower()
    for literals, pattern in _PATTERNS:
        if any(literal in low for literal in literals.split(" ") if literal):
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
        forms = (
            form
            for name, value in self._env.items()
            if looks_secret(name, value) or (name in self._pass_env and name not in NEVER_WITHHELD)
            for part in _parts(name, value)
            for form in _forms(name, part)
        )
        self._forms = tuple({form.text: form for form in forms}.values())

    def knowing(self, env: Mapping[str, str], pass_env: Collection[str] = ()) -> Cleaner:
        """One that knows these variables as well, and takes more of them for secrets."""
        return Cleaner({**self._env, **env}, self._pass_env | {*pass_env})

    def clean(self, text: str) -> str:
        """The text without secrets: in the place of each stands the name of its variable."""
        spans = [(start, end, UNNAMED) for start, end in _patterned(text)]
        joined = _INTERRUPTED.sub("", text) if self._forms else ""
        places: Sequence[int] = ()
        for form in self._forms:
            if form.is_word:
                spans += form.within(text, range(len(text)))
            elif form.head in joined or form.tail in joined:
                places = places or _places(text)
                spans += form.within(joined, places)
        return _without(text, spans) if spans else text

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
    with suppress(ValueError, RecursionError):
        held = json.loads(value) if value.lstrip().startswith(("{", "[")) else None
        within += [
            text
            for key, text in _leaves(held)
            if looks_secret(key, text) and not text.startswith("http")
        ]
    lines = (line.strip() for one in (value, *within) for line in one.splitlines())
    within += [line for line in lines if len(line) >= LONG_LINE]
    for part in (value, *(part for part in within if "-----" not in part)):
        if len(part) >= SHORTEST and not _SWITCH.fullmatch(part) and not _is_common(name, part):
            yield part


def _leaves(held: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of what JSON holds, each with the name that it stands under."""
    match held:
        case str():
            yield key, held
        case dict():
            for name, value in held.items():
                yield from _leaves(value, name)
        case list():
            for value in held:
                yield from _leaves(value, key)
        case _:
            pass


def _is_common(name: str, value: str) -> bool:
    """Whether a value may be a word that any text holds: that of a setting, by its name."""
    if _NUMBER.fullmatch(value):
        return len(value) < SHORTEST_NUMBER
    is_short = len(value) < SHORTEST_WORD and _LIKE_WORD.fullmatch(value) is not None
    return is_short and not _names_secret(_CAMEL.sub("_", name).upper())


class _Form(NamedTuple):
    """What a text may hold of a secret."""

    name: str
    text: str
    is_word: bool
    """Whether it is one only where it is no part of a longer word."""
    head: str
    """Its beginning where a text may cut it, else all of it."""
    tail: str

    def within(self, held: str, places: Sequence[int]) -> Iterator[tuple[int, int, str]]:
        """Where a text holds it, or its beginning or end next to a cut."""
        for start, end in self._spans(held):
            yield places[start], places[end - 1] + 1, self.name

    def _spans(self, held: str) -> Iterator[tuple[int, int]]:
        whole, head, tail = map(re.escape, (self.text, self.head, self.tail))
        if self.is_word:
            whole = f"{_BEGINS}{whole}(?![A-Za-z0-9])"
        yield from (found.span() for found in re.finditer(whole, held))
        rest = len(self.text) - len(self.head)
        if not rest:
            return
        # By the head and the tail, not by the dots: of these a log may be full.
        for found in re.finditer(head, held):
            start, end = found.span()
            cuts = (held.find(dots, end, end + rest + _NEXT_TO) for dots in _DOTS)
            if cut := min((one for one in cuts if one >= 0), default=0):
                yield start, max(end, start + len(held[start:cut].rstrip(f"{_AROUND}[<")))
        for found in re.finditer(tail, held):
            start, end = found.span()
            first = max(start - rest - len(_DOTS[0]), 0)
            starts = ((held.find(dots, first, start), len(dots)) for dots in _DOTS)
            if begin := min((one + size for one, size in starts if one >= 0), default=0):
                yield begin, end


def _forms(name: str, value: str) -> Iterator[_Form]:
    """A value as texts may hold it."""
    is_word = len(value) < SHORTEST_WITHIN
    for written in (value,) if is_word else _encoded(value):
        text = _INTERRUPTED.sub("", written).strip(_AROUND)
        if len(text) < (SHORTEST if is_word else SHORTEST_WITHIN):
            continue
        is_whole = is_word or re.search(r"://|^/", text) is not None
        cut = len(text) if is_whole else max(SHORTEST, min(12, len(text) // 2))
        yield _Form(name, text, is_word, text[:cut], text[-cut:])


def _encoded(value: str) -> Iterator[str]:
    """The value as other texts hold it."""
    raw = value.encode(errors="surrogateescape")
    literal = {value, repr(raw)[2:-1]}
    for _ in range(2):  # a literal within another
        for one in tuple(literal):
            literal |= {json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]}
            literal |= {repr(one)[1:-1], one.replace("'", r"\'")}
    yield from literal
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


def _places(text: str) -> list[int]:
    """Where in a text each character stands that wrapping and colours did not put into it."""
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
