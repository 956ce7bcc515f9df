"""What secrets look like, and the one place that takes them out of text; knows names and values,
not who speaks."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import quote, quote_plus, urlsplit

from pydantic import BaseModel

if TYPE_CHECKING:
    import numpy as np

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

SECRET_PREFIXES: Final = ("AWS_",)
"""Families of names that are about access as a whole."""

SECRET_PARTS: Final = (
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
)
"""Found anywhere in a name: PGPASSWORD, CLIENTSECRET, GOOGLE_APPLICATION_CREDENTIALS."""

SECRET_WORDS: Final = frozenset({"CREDS", "DSN", "JWT", "PASS", "PAT", "PWD", "WEBHOOK"})
"""Found as a whole word of a name: DB_PASS, SENTRY_DSN."""

DOUBTFUL_WORDS: Final = frozenset(
    {"AUTH", "BEARER", "COOKIE", "COOKIES", "KEY", "KEYS", "OAUTH", "PRIVATE", "TOKEN", "TOKENS"}
)
"""Words of secrets, but of settings too (MAX_TOKENS=4096): not withheld where the value is a number
or a switch. TOKENIZERS, KEYBOARD, MONKEY, AUTHOR and XAUTHORITY are other words."""

OTHER_WORDS: Final = frozenset({"TIKTOKEN"})
"""Words that end as a secret's do, and are none."""

GIT_CONFIG: Final = re.compile(r"GIT_CONFIG_(COUNT|(KEY|VALUE)_\d+)")
_GIT_CONFIG_KEY = re.compile(r"GIT_CONFIG_KEY_\d+")
"""Names of settings of git's, such as `safe.directory`; their values may be secrets."""
_SWITCH = re.compile(r"[+-]?\d{1,9}(\.\d+)?|true|false|yes|no|on|off|none|auto", re.IGNORECASE)
_WORD = re.compile(r"[A-Z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

_HIDDEN: Final = "[hidden: "
UNNAMED: Final = "secret"
"""What stands in the place of one that is no variable's."""
_ESCAPES = r"(?<=\\[abefnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9]m)"
_BEGINS = rf"(?:(?<![A-Za-z0-9])|{_ESCAPES})"
"""Where a token begins: not within a word, but behind an escape, which may end in a letter."""
_STILL = r"(?!\[hidden: )"
_AROUND_LINES: Final = " \t\r\f\v|│┃║>'\"\\"
"""What stands at the ends of lines where a text was wrapped: indents, bars, quotes."""
_IS = r"\\?['\"]?\s{0,8}[:=]\s{0,8}\\?['\"]?"
"""Between a name and its value, in code, JSON and headers."""
_QUERIED = r"(?:[a-z]+[-_])*(?:sig|signature|token|api_?key|key|password|secret|credential)"
_NAMED = (
    r"(?:password|passwd|passphrase|client_?secret|api_?key|access_?key|access_?token|auth_?token|refresh_?token"
    r"|private_?key|secret)"
)
_BASE64URL = "[A-Za-z0-9_-]"


def _run(of: str, least: int) -> str:
    """So many characters of a token, also where lines end within it: what goes on must look like a
    token's part."""
    around = f"[{re.escape(_AROUND_LINES)}]{{0,200}}"
    goes_on = rf"(?={of}{{0,4096}}[0-9])(?={of}{{0,4096}}[A-Za-z])"
    return rf"(?:(?:{around}\n(?:E )?{around}{goes_on})?{of}){{{least},}}"


PATTERNS: Final = tuple(
    (literals, re.compile(pattern))
    for literals, pattern in (
        # user and password in a URL or connection string, or a token in place of both
        (
            ("://",),
            r"(?<=://)(?:[^/\s@:'\"<>]{0,256}:[^/\s@'\"<>]{1,2048}|[A-Za-z0-9_-]{20,512})(?=@)",
        ),
        # or in its query
        (
            ("sig=", "signature=", "token=", "key=", "password=", "secret=", "credential="),
            rf"[?&](?i:{_QUERIED})=({_STILL}[^&\s'\"<>]{{8,4096}})",
        ),
        (
            ("password=",),
            r"(?i:\bpassword)=((?!\[hidden: )[^;\s'\"]+)",
        ),  # key=value connection strings
        (
            ("accountkey=", "accesskey="),
            r"(?i:\b(?:shared)?(?:account|access)key)=([A-Za-z0-9+/=]{20,})",
        ),
        (
            ("authorization",),
            rf"(?i:\bauthorization){_IS}(?i:basic|bearer|token)\s+({_STILL}[^\s'\"\\]+)",
        ),
        (("bearer ",), r"(?i:\bbearer) ([A-Za-z0-9._~+/=-]{16,})"),
        # what a program's text names so itself, quoted
        (
            (
                "passw",
                "passphrase",
                "secret",
                "api_key",
                "apikey",
                "access_key",
                "accesskey",
                "private_key",
                "privatekey",
                "access_token",
                "accesstoken",
                "auth_token",
                "authtoken",
                "refresh_token",
                "refreshtoken",
            ),
            rf"(?i:(?<![A-Za-z]){_NAMED}){_IS}(?<=['\"])({_STILL}[^'\"\s\\]{{6,4096}})",
        ),
        (
            ("secret_access_key", "secretaccesskey"),
            rf"(?i:secret_?access_?key){_IS}([A-Za-z0-9/+]{{40}})",
        ),
        (
            ("gho_", "ghp_", "ghr_", "ghs_", "ghu_"),
            _BEGINS + r"gh[oprsu]_" + _run("[A-Za-z0-9]", 16),
        ),  # GitHub
        (("github_pat_",), _BEGINS + r"github_pat_" + _run("[A-Za-z0-9_]", 16)),
        (("glpat-",), _BEGINS + r"glpat-" + _run(_BASE64URL, 16)),  # GitLab
        (("sk-",), _BEGINS + r"sk-" + _run(_BASE64URL, 16)),  # model providers
        (("hf_",), _BEGINS + r"hf_" + _run("[A-Za-z0-9]", 16)),  # Hugging Face
        (("nvapi-",), _BEGINS + r"nvapi-" + _run(_BASE64URL, 16)),  # NVIDIA
        (("akia", "asia"), _BEGINS + r"(?:AKIA|ASIA)" + _run("[A-Z0-9]", 12)),  # AWS
        (("aiza",), _BEGINS + r"AIza" + _run(_BASE64URL, 30)),  # Google
        (("ya29.", "gocspx-"), _BEGINS + r"(?:ya29\.|GOCSPX-)" + _run(_BASE64URL, 20)),
        (("xox", "xapp-"), _BEGINS + r"(?:xox[abeoprs]|xapp)-" + _run("[A-Za-z0-9-]", 8)),  # Slack
        (("hooks.slack.com/",), r"(?<=hooks\.slack\.com/)[A-Za-z]+/" + _run("[A-Za-z0-9/_-]", 16)),
        (("npm_",), _BEGINS + r"npm_" + _run("[A-Za-z0-9]", 30)),
        (("pypi-",), _BEGINS + r"pypi-" + _run(_BASE64URL, 30)),
        (
            ("sk_live_", "sk_test_", "rk_live_"),
            _BEGINS + r"[sr]k_(?:live|test)_" + _run("[A-Za-z0-9]", 16),
        ),  # Stripe
        (
            ("eyj",),
            rf"{_BEGINS}(?<![_-])eyJ{_run(_BASE64URL, 8)}\.eyJ{_run(_BASE64URL, 8)}\.{_run(_BASE64URL, 0)}",
        ),  # JSON web tokens
        (
            ("private key-----",),
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?:[^-]|-(?!----)){0,40000}(?:-----END [A-Z ]{0,30}-----)?)",
        ),
    )
)
"""What secrets look like, whatever their variable is called. Of a group, it is the secret.

Each comes with what is in lower case in every text that it matches: only such a text is searched.
Each takes a time that grows as the text does, whatever is in it.
"""

SHORTEST: Final = 6
"""Characters of a value that is looked for in texts: "1" and "true" are in all of them."""
LONG: Final = 512
"""Bytes of a text beyond which numpy is faster."""
PART: Final = 1 << 16
"""Bytes of it that are looked at in one go: they stay in the processor's cache."""
SHORTEST_WITHIN: Final = 8
"""Of one that is looked for within words as well."""
SHORTEST_WORD: Final = 10
"""Of one of letters or digits alone whose name may be that of a setting."""
SHORTEST_NUMBER: Final = 12
"""Of one of digits alone: shorter ones are what is measured."""
_ANSI = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_AROUND_BYTES: Final = (_AROUND_LINES + "\n").encode()
_NUMBER = re.compile(r"[0-9.]+")
_LIKE_WORD = re.compile(r"[A-Za-z]+|[0-9][0-9.]*")
_PAIR = re.compile(
    r"(?i:\b[\w-]*(?:password|pwd|secret|key|token|bearer|basic|sig))[=: ]\s*([^;,&\s]+)"
)
_CUT_BEHIND = ("...", "…", "\n", "\r", "[...", "<...", " ...")
_CUT_BEFORE = ("...", "…", "\n", "\r", "...]", "...>", "... ")
"""What stands around the part of a text that was cut."""
_LIKE_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])|.{16}", re.DOTALL)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by the tables above; an empty one never does."""
    if not value or name in NEVER_WITHHELD or _GIT_CONFIG_KEY.fullmatch(name):
        return False
    words = _words(name)
    if _named_secret(name) or _in_capitals(name).startswith(SECRET_PREFIXES):
        return True
    doubtful = not DOUBTFUL_WORDS.isdisjoint(words) or any(
        word.endswith("TOKEN") for word in words if word not in OTHER_WORDS
    )
    if doubtful and not _SWITCH.fullmatch(value):
        return True
    return next(_patterned(value), None) is not None


def _in_capitals(name: str) -> str:
    return _CAMEL.sub("_", name).upper()


def _words(name: str) -> list[str]:
    return _WORD.findall(_in_capitals(name))


def _named_secret(name: str) -> bool:
    """Whether a name is that of nothing but a secret."""
    joined = _in_capitals(name).replace("_", "")
    return any(part in joined for part in SECRET_PARTS) or not SECRET_WORDS.isdisjoint(_words(name))


class _Finder:
    """Says which of many short byte strings are in a text, in about the same time however many
    there are."""

    def __init__(self, keys: Collection[bytes], *, width: int) -> None:
        """Take what to look for, and how many bytes of it begin none of the others in most texts: 3
        to 6."""
        self._width = width
        self._by_start: dict[bytes, list[bytes]] = {}
        for key in keys:
            self._by_start.setdefault(key[:width], []).append(key)
        self._table: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None

    def within(self, text: bytes) -> list[bytes]:
        """Those that are in a text."""
        if not self._by_start:
            return []
        if len(text) < LONG:
            starts = {
                text[place : place + self._width] for place in range(len(text) - self._width + 1)
            }
        else:
            starts = {
                start for place in range(0, len(text), PART) for start in self._perhaps(text, place)
            }
        return [
            key
            for start in starts & self._by_start.keys()
            for key in self._by_start[start]
            if key in text
        ]

    def _perhaps(self, text: bytes, place: int) -> Iterator[bytes]:
        """Beginnings of what is looked for, and a few others, in a part of a long text."""
        import numpy as np  # noqa: PLC0415 - heavy, and most commands print little

        if self._table is None:
            self._table = np.zeros(1 << 16, dtype=np.bool_)
            for start in self._by_start:
                self._table[self._hashes(start)] = True
        part = text[place : place + PART + self._width - 1]
        if len(part) >= self._width:
            for found in np.flatnonzero(self._table[self._hashes(part)]).tolist():
                yield part[found : found + self._width]

    def _hashes(self, text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """A number below 65536 for each place in a text, made of the bytes that begin there."""
        import numpy as np  # noqa: PLC0415 - likewise

        places, padded = len(text) - self._width + 1, text + b"\0" * 8
        first = np.ndarray((places,), "<u4", padded, 0, (1,))
        if self._width < 4:
            first = first & np.uint32(0xFFFFFF)
        numbers = first * np.uint32(2654435761)
        if self._width > 4:
            numbers += np.ndarray((places,), "<u2", padded, self._width - 2, (1,)) * np.uint32(
                0x9E370000 + 40503
            )
        return numbers >> np.uint32(16)


_LITERALS: Final = _Finder(
    dict.fromkeys(literal.encode() for literals, _ in PATTERNS for literal in literals), width=3
)


def _patterned(text: str) -> Iterator[tuple[int, int]]:
    """Where a text holds what looks like a secret."""
    held = _LITERALS.within(text.lower().encode(errors="surrogatepass"))
    for literals, pattern in PATTERNS if held else ():
        if any(literal.encode() in held for literal in literals):
            for found in pattern.finditer(text):
                yield found.span(pattern.groups)


T = TypeVar("T")


class Cleaner:
    """Takes out of texts the values of variables, and what looks like a secret by itself.

    A value is found as it is, as Python, JSON, a URL, base64 or hexadecimal digits write it, over
    the ends of lines, and cut where the text says so or ends.
    """

    def __init__(
        self, env: Mapping[str, str] | None = None, pass_env: Collection[str] = ()
    ) -> None:
        """Take the variables that may be secrets: those that look so, and those that `pass_env`
        names."""
        self._env, self._pass_env = dict(env or {}), frozenset(pass_env)
        secrets = {
            name: value
            for name, value in self._env.items()
            if looks_secret(name, value) or (name in self._pass_env and name not in NEVER_WITHHELD)
        }
        self._forms: dict[str, _Form] = {}
        for name, value in secrets.items():
            for piece in _pieces(name, value):
                for form in _forms(name, piece):
                    self._forms.setdefault(form.text, form)
        self._by_seed: dict[bytes, list[_Form]] = {}
        for form in self._forms.values():
            for seed in form.seeds:
                self._by_seed.setdefault(seed, []).append(form)
        self._seeds = _Finder(self._by_seed, width=SHORTEST)

    def knowing(self, env: Mapping[str, str], pass_env: Collection[str] = ()) -> Cleaner:
        """One that knows these variables as well, and takes more of them for secrets."""
        return Cleaner({**self._env, **env}, self._pass_env | {*pass_env})

    def clean(self, text: str) -> str:
        """The text without secrets: in the place of each stands the name of its variable."""
        spans = [(start, end, UNNAMED) for start, end in _patterned(text)]
        forms = self._perhaps_in(text)
        squeezed = None
        for form in forms:
            spans += [
                (start, end, form.name)
                for start, end in _places(text, form.text, is_word=form.is_word)
            ]
            if form.may_be_cut:
                spans += [(start, end, form.name) for start, end in _cut_places(text, form.text)]
            if form.squeezed and ("\n" in text or "\x1b" in text):
                squeezed = squeezed or _squeeze(text)
                joined, starts, lengths = squeezed
                for start, end in _places(joined, form.squeezed, is_word=form.is_word):
                    first, last = (
                        bisect_right(lengths, start) - 1,
                        bisect_right(lengths, end - 1) - 1,
                    )
                    spans.append(
                        (
                            starts[first] + start - lengths[first],
                            starts[last] + end - lengths[last],
                            form.name,
                        )
                    )
        return _without(text, spans) if spans else text

    def _perhaps_in(self, text: str) -> list[_Form]:
        """Those forms that a text may hold, whole or cut: of most texts none, which is soon known."""
        if not self._forms:
            return []
        found = self._seeds.within(_flat(text))
        return list(dict.fromkeys(form for seed in found for form in self._by_seed[seed]))

    def lines(self, lines: Collection[str]) -> list[str]:
        """The lines of a text without its secrets; what goes over several becomes one."""
        text = "\n".join(lines)
        cleaned = self.clean(text)
        return list(lines) if cleaned == text else cleaned.split("\n")

    def record(self, held: T) -> T:
        """A record, or anything of which such are made, with clean texts; values of enums are none."""
        text = "\x00".join(_texts(held))
        return held if self.clean(text) == text else cast("T", self._cleaned(held))

    def _cleaned(self, held: object) -> object:
        match held:
            case BaseModel():
                return held.model_copy(update={name: self._cleaned(value) for name, value in held})
            case str() if type(held) is str:
                return self.clean(held)
            case Mapping():
                return {self._cleaned(key): self._cleaned(value) for key, value in held.items()}
            case tuple() if type(held) is tuple:
                return tuple(map(self._cleaned, held))
            case _:
                return held


def _texts(held: object) -> Iterator[str]:
    match held:
        case BaseModel():
            for _, value in held:
                yield from _texts(value)
        case str() if type(held) is str:
            yield held
        case Mapping():
            for key, value in held.items():
                yield from _texts(key)
                yield from _texts(value)
        case tuple():
            for value in held:
                yield from _texts(value)
        case _:
            pass


def _pieces(name: str, value: str) -> Iterator[str]:
    """A value and those of its parts that are secrets by themselves, as far as they are worth
    looking for."""
    with suppress(ValueError, OSError):  # a NUL, or too long for a path
        if Path(value).exists():
            return
    parts = [value, value.strip()]
    parts += [
        line.strip()
        for line in value.splitlines()
        if len(line.strip()) >= 20 and "-----" not in line
    ]
    parts += [found[1] for found in _PAIR.finditer(value)]
    with suppress(ValueError):
        password = urlsplit(value).password
        parts += [] if password is None else [password]
    with suppress(ValueError, RecursionError):
        held = json.loads(value) if value.lstrip().startswith(("{", "[")) else None
        parts += [
            text
            for key, text in _leaves(held)
            if looks_secret(key, text) and not text.startswith("http")
        ]
    for part in dict.fromkeys(parts):
        if len(part) >= SHORTEST and not _SWITCH.fullmatch(part) and not _is_common(name, part):
            yield part


def _is_common(name: str, value: str) -> bool:
    """Whether a value may be a word that any text holds: that of a setting, by its name."""
    if _NUMBER.fullmatch(value):
        return len(value) < SHORTEST_NUMBER
    if _named_secret(name):
        return False
    if _in_capitals(name).startswith(SECRET_PREFIXES) and DOUBTFUL_WORDS.isdisjoint(_words(name)):
        return not (len(value) >= 12 and re.search("[0-9]", value) and re.search("[A-Za-z]", value))
    return len(value) < SHORTEST_WORD and _LIKE_WORD.fullmatch(value) is not None


def _leaves(held: object, key: str = "") -> Iterator[tuple[str, str]]:
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


@dataclass(frozen=True, kw_only=True)
class _Form:
    """What a text may hold of a secret."""

    name: str
    text: str
    is_word: bool = False
    """Whether it is one only where it is no part of a longer word."""
    may_be_cut: bool = False

    @cached_property
    def squeezed(self) -> str:
        """As `_squeeze` leaves it; empty where that is too little."""
        squeezed = _squeeze(self.text)[0]
        return squeezed if len(squeezed) >= SHORTEST else ""

    @property
    def seeds(self) -> set[bytes]:
        """What begins it, and ends it where it may be cut."""
        flat = _flat(self.text)
        return {flat[:SHORTEST], flat[-SHORTEST:]} if self.may_be_cut else {flat[:SHORTEST]}


def _forms(name: str, value: str) -> Iterator[_Form]:
    """A value as texts may hold it."""
    is_word = len(value) < SHORTEST_WITHIN or _LIKE_WORD.fullmatch(value) is not None
    may_be_cut = not is_word and "://" not in value and not value.startswith("/")
    forms = [_Form(name=name, text=value, is_word=is_word, may_be_cut=may_be_cut)]
    if not is_word:
        forms += [
            _Form(name=name, text=form) for form in _encoded(value) if len(form) >= SHORTEST_WITHIN
        ]
    yield from (form for form in forms if len(_flat(form.text)) >= SHORTEST)


def _flat(text: str) -> bytes:
    """The text without anything that wrapping and colours may put into it, or that stands where
    lines end."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\nE ", "\n").encode(errors="surrogatepass").translate(None, _AROUND_BYTES)


def _encoded(value: str) -> Iterator[str]:
    """The value as other texts hold it."""
    raw = value.encode(errors="surrogateescape")
    yield repr(value)[1:-1]
    yield repr(raw)[2:-1]
    yield repr(repr(value))[2:-2]
    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield json.dumps(json.dumps(value, ensure_ascii=is_ascii))[3:-3]
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


def _places(text: str, form: str, *, is_word: bool) -> Iterator[tuple[int, int]]:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if not is_word or not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            yield start, end
        start = text.find(form, end)


def _cut_places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Where a text holds the beginning of a value without its end, or its end without its
    beginning."""
    seed = max(SHORTEST, min(12, len(value) // 2))
    start = text.find(value[:seed])
    while start >= 0:
        end = start + _common(text[start : start + len(value)], value)
        if (end == len(text) or text.startswith(_CUT_BEHIND, end)) and _LIKE_TOKEN.match(
            text[start:end]
        ):
            yield start, end
        start = text.find(value[:seed], end)
    end = text.find(value[-seed:]) + seed
    while end >= seed:
        held = text[max(end - len(value), 0) : end]
        start = end - _common(held[::-1], value[::-1])
        is_cut = start == 0 or text[max(start - 4, 0) : start].endswith(_CUT_BEFORE)
        if is_cut and _LIKE_TOKEN.match(text[start:end]):
            yield start, end
        end = text.find(value[-seed:], end) + seed


def _common(text: str, value: str) -> int:
    """With how many characters both begin."""
    return next(
        (
            place
            for place, (one, other) in enumerate(zip(text, value, strict=False))
            if one != other
        ),
        len(text),
    )


def _squeeze(text: str) -> tuple[str, list[int], list[int]]:
    """The text on one line, without what wrapping and colours put into it: where its parts were,
    and are now."""
    parts: list[str] = []
    starts: list[int] = []
    lengths: list[int] = []
    place = length = 0
    for line in text.split("\n"):
        bounds = [0, len(line)]
        if "\x1b" in line:
            bounds[1:1] = [edge for found in _ANSI.finditer(line) for edge in found.span()]
        for first, last in zip(bounds[::2], bounds[1::2], strict=True):
            part = line[first:last]
            kept = part if first else part.removeprefix("E ").lstrip(_AROUND_LINES)
            start = place + last - len(kept)
            if last == len(line):
                kept = kept.rstrip(_AROUND_LINES)
            if kept:
                parts.append(kept)
                starts.append(start)
                lengths.append(length)
                length += len(kept)
        place += len(line) + 1
    return "".join(parts), starts, lengths


def _without(text: str, spans: list[tuple[int, int, str]]) -> str:
    held: list[str] = []
    done = 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1], span[2] == UNNAMED)):
        if start >= done:
            held += [text[done:start], f"{_HIDDEN}{name}]"]
        done = max(done, end)
    return "".join((*held, text[done:]))
