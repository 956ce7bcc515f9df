"""Texts without the secrets of an environment, in whatever form a text has them."""

from __future__ import annotations

import base64
import json
import time
import urllib.parse

import pytest

from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.verdict import Verdict

TOKEN = 'tok3n+Aa1Bb2/Cc3Dd4Ee5Ff6Gg7="Hh8'
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEA\n-----END PRIVATE KEY-----"
CLEANER = Cleaner(
    {
        "MY_TOKEN": TOKEN,
        "PLAIN": "opaque-value-77",
        "DATABASE": "postgres://me:hush1234@db.example/x",
        "SIGNING_KEY": KEY,
        "DB_PASSWORD": "hunter2",
        "CLOUD_CREDENTIALS": json.dumps({"client": "ada", "private_key": "0a1b2c3d4e5f6a7b"}),
    },
    ["PLAIN"],
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"no {TOKEN}!", "no [hidden: MY_TOKEN]!"),
        (f"no {TOKEN!r}", "no '[hidden: MY_TOKEN]'"),
        (json.dumps({"a": TOKEN}), '{"a": "[hidden: MY_TOKEN]"}'),
        (f"/x?q={urllib.parse.quote(TOKEN, safe='')}&y", "/x?q=[hidden: MY_TOKEN]&y"),
        (TOKEN.encode().hex(), "[hidden: MY_TOKEN]"),
        (f"E   no {TOKEN[:9]}\nE     {TOKEN[9:]} there", "E   no [hidden: MY_TOKEN] there"),
        (f"│ {TOKEN[:9]} │\n│ {TOKEN[9:]} │", "│ [hidden: MY_TOKEN] │"),
        (f"\x1b[31m{TOKEN[:9]}\x1b[0m{TOKEN[9:]}", "\x1b[31m[hidden: MY_TOKEN]"),
        (f"'{TOKEN[:20]}...'", "'[hidden: MY_TOKEN]...'"),
        (f"'...{TOKEN[-20:]}'", "'...[hidden: MY_TOKEN]'"),
        ("an opaque-value-77", "an [hidden: PLAIN]"),
        ("an opaque-value-78", "an opaque-value-78"),
        ("TOK tok3n+Aa1Bb2/Cc3 is another", "TOK tok3n+Aa1Bb2/Cc3 is another"),
        ("me and hush1234", "me and [hidden: DATABASE]"),
        ("hunter2, ghunter22", "[hidden: DB_PASSWORD], ghunter22"),
        ("0a1b2c3d4e5f6a7b of ada", "[hidden: CLOUD_CREDENTIALS] of ada"),
        ("| MIIEvQIBADANBgkqhkiG9w0BAQEFAASC |", "| [hidden: SIGNING_KEY] |"),
        (f"{KEY}.", "[hidden: SIGNING_KEY]."),
        ("a\\nghp_" + "b" * 36, "a\\n[hidden: secret]"),
        ("E   no ghp_Zz9Yy8Xx\nE     7Ww6Vv5Uu4Tt3Ss2 there", "E   no [hidden: secret] there"),
        ("│ no hf_Zz9Yy8Xx7Ww6Vv5U │\n│ u4Tt3Ss2Rr1Qq0 │\n│ there │", "│ no [hidden: secret] │\n│ there │"),
        ("ghp_Zz9Yy8Xx7Ww6Vv5Uu4Tt3\nTraceback\n2026-11-27", "[hidden: secret]\nTraceback\n2026-11-27"),
        ("'eyJhbGciOiJIUzI1\n  NiJ9.eyJzdWIiOi\n  JIxIn0.abc-_d1'", "'[hidden: secret]'"),
        ("'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_d'", "'[hidden: secret]'"),
        ("https://me:x@example.org/a https://example.org:80/b", "https://[hidden: secret]@example.org/a https://example.org:80/b"),
        ("{'Authorization': 'Bearer abc123'}", "{'Authorization': 'Bearer [hidden: secret]'}"),
        ('connect(password="abc def", api_key="abcdef")', 'connect(password="abc def", api_key="[hidden: secret]")'),
    ],
)  # fmt: skip
@pytest.mark.behaviour
def test_a_secret_is_hidden_in_every_form_and_only_once(text: str, cleaned: str) -> None:
    assert CLEANER.clean(text) == cleaned
    assert CLEANER.clean(cleaned) == cleaned


DOCKER = {"auths": {"ghcr.io": {"auth": "dXNlcjpwYXNzd29yZA=="}}}
LEAVES = {"passphrase": "open sesame now", "cookie": "a1,b2;c3&d4", "tokens": ["caf\u00e9-7719-x"]}
OF_SERVICE = json.dumps({"private_key": KEY})
"""As Google's are."""


@pytest.mark.parametrize(
    ("name", "value", "text", "secret"),
    [
        ("DOCKER_AUTH_CONFIG", json.dumps(DOCKER), "dXNlcjpwYXNzd29yZA==", ""),
        ("GCP_CREDENTIALS", json.dumps(LEAVES), "open sesame now", ""),
        ("GCP_CREDENTIALS", json.dumps(LEAVES), "a1,b2;c3&d4", ""),
        ("GCP_CREDENTIALS", json.dumps(LEAVES), "caf\u00e9-7719-x", ""),
        ("GCP_CREDENTIALS", OF_SERVICE, "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", ""),
        ("DATABASE_URL", "postgres://me:p@ss4Word9x@db/x", "p@ss4Word9x", ""),
        ("DB_PASSWORD", "correct horse battery staple", "correct horse batt...", "..."),
        ("DB_PASSWORD", "correct horse battery staple", "...battery staple", "..."),
        (
            "DB_PASSWORD",
            "correct horse battery staple",
            "correct horse [...] battery staple",
            "[...]",
        ),
        (
            "DB_PASSWORD",
            "correct horse battery staple",
            "correct horse(...)battery staple",
            "(...)",
        ),
        ("API_KEY", "a8f3k2.d9s4m1.q7w6e5.z3x2c1", "a8f3k2.d9s4m1...", "..."),
        ("API_KEY", "a8f3k2.d9s4m1.q7w6e5.z3x2c1", "...q7w6e5.z3x2c1", "..."),
    ],
)
@pytest.mark.behaviour
def test_secrets_within_a_value_are_hidden_by_themselves(
    name: str, value: str, text: str, secret: str
) -> None:
    cleaned = Cleaner({name: value}).clean(f"it is {text} here")
    assert cleaned.replace(f"[hidden: {name}]", "") == f"it is {secret} here"


@pytest.mark.parametrize("before", range(3))
def test_base64_is_found_wherever_a_value_begins_in_it(before: int) -> None:
    found = base64.b64encode(b"x" * before + TOKEN.encode() + b"yz").decode()
    assert TOKEN[4:-4] not in base64.b64decode(CLEANER.clean(found).split("[")[0] + "====").decode(
        errors="replace"
    )
    assert "[hidden: MY_TOKEN]" in CLEANER.clean(found)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FLAG_TOKEN", "1", "step 1 of 10"),
        ("USE_AUTH", "true", "true"),
        ("AWS_PROFILE", "default", "stream default"),
        ("MY_KEY", "training", "training"),
        ("PIN_PASSWORD", "12345678", "12345678 bytes"),
        ("KEY_FILE", "/etc/hostname", "/etc/hostname"),
        ("MAX_TOKENS", "4096", "max_tokens=4096"),
        ("DB_PASSWORD", "'ab'   ", "ab ovo"),
        ("DB_PASSWORD", " " * 6, "a = (b)"),
    ],
)
def test_what_any_text_holds_stays(name: str, value: str, text: str) -> None:
    assert Cleaner({name: value}).clean(text) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"),
        ("LANG", "en_US.UTF-8"),
        ("LANGUAGE", "en_US:en"),
        ("LC_ALL", "en_US.UTF-8"),
        ("LOGNAME", "github-runner"),
        ("USER", "github-runner"),
    ],
)
def test_an_ordinary_variable_that_a_project_hands_on_stays(name: str, value: str) -> None:
    text = f"/home/{value}/x: {name}={value}"
    assert Cleaner({name: value}, [name]).clean(text) == text


def test_a_record_is_cleaned_all_through_and_its_outcome_stays() -> None:
    verdict = Verdict(
        workload="mlp",
        outcome=Outcome.REGRESSED,
        why=quoted(f"no {TOKEN}"),
        notes=(quoted(TOKEN), quoted("plain")),
    )
    cleaned = Cleaner({"MY_TOKEN": TOKEN, "A_PASSWORD": "REGRESSED"}).record(verdict)
    assert cleaned.outcome is Outcome.REGRESSED
    assert cleaned.why == quoted("no [hidden: MY_TOKEN]")
    assert cleaned.notes == (quoted("[hidden: MY_TOKEN]"), quoted("plain"))


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "sk-",
            "eyJ-",
            "eyJaaaaaaaa.",
            "a://:",
            " ",
            "\n",
            "-----BEGIN PRIVATE KEY-----",
            "authorization: ",
            "\x1b[",
        ),
        *("password= '", "?a-a_", "bearer ", TOKEN[:12], TOKEN, "step 12 loss 0.1\n"),
        *(
            "ghp_\n",
            "sk-a1\n",
            "hf_a1 \n   b2\n",
            "ghp_a1 | ",
            "ghp_a1" + " " * 200 + "\n",
            "eyJ\na1b2c3d4",
        ),
    ],
)
def test_no_text_takes_long(unit: str) -> None:
    started = time.process_time()
    CLEANER.clean(unit * (500_000 // len(unit)))
    assert time.process_time() - started < 3


@pytest.mark.parametrize("unit", [".", "Loading...\n", "{", "x... "])
def test_nor_does_one_full_of_dots_next_to_a_long_secret(unit: str) -> None:
    value = json.dumps({"token": "".join(f"{n:05}" for n in range(600))})
    text = unit * (400_000 // len(unit))
    started = time.process_time()
    cleaned = Cleaner({"GCP_CREDENTIALS": value}).clean(f"{value[:12]} {text}{value}")
    assert time.process_time() - started < 3
    assert value[-20:-2] not in cleaned
