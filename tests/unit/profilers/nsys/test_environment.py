from __future__ import annotations

import pytest

from perfgate.model.secrets import looks_secret
from perfgate.profilers.nsys.command import (
    withhold_secrets,
    without_profiler,
)


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "GH_PAT",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "WANDB_API_KEY",
        "NVIDIA_API_KEY",
        "NGC_API_KEY",
        "OPENAI_APIKEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AZURE_CLIENT_SECRET",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NPM_CONFIG_//registry.npmjs.org/:_authToken",
        "npm_config__auth",
        "PGPASSWORD",
        "MYSQL_PWD",
        "DB_PASS",
        "SSH_AUTH_SOCK",
        "SSH_PRIVATE_KEY",
        "SENTRY_DSN",
        "SLACK_WEBHOOK",
        "SESSION_COOKIE",
        "DEPLOY_KEY_FILE",
        "accessToken",
        "TWINE_PASSWORD",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name, "s3cr3t-value")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin:/home/me:you@host/bin"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("HOME", "/home/me"),
        ("PWD", "/work"),
        ("OLDPWD", "/work"),
        ("PYTHONPATH", "/work/src"),
        ("PYTHONHASHSEED", "0"),
        ("VIRTUAL_ENV", "/venv"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_DEBUG", "INFO"),
        ("MASTER_ADDR", "10.0.0.1"),
        ("MASTER_PORT", "29500"),
        ("OMP_NUM_THREADS", "8"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096"),
        ("VLLM_MAX_NUM_BATCHED_TOKENS", "8192"),
        ("USE_AUTH", "false"),
        ("GIT_AUTHOR_NAME", "Ada"),
        ("XAUTHORITY", "/home/me/.Xauthority"),
        ("KEYBOARD_LAYOUT", "de"),
        ("MONKEYPATCH", "all"),
        ("XDG_SESSION_ID", "c1"),
        ("SSL_CERT_FILE", "/etc/ssl/cert.pem"),
        ("HF_HOME", "/data/hf"),
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("AWS_REGION", "eu-central-1"),
        ("GITHUB_REF", "refs/heads/main"),
        ("GITHUB_SHA", "0123456789abcdef0123456789abcdef01234567"),
        ("API_TOKEN", ""),
    ],
)
def test_what_runs_need_is_no_secret(name: str, value: str) -> None:
    assert not looks_secret(name, value)


@pytest.mark.parametrize(
    "value",
    [
        "postgres://me:hush@db.example/perf",
        "https://user:pa55@packages.example/simple",
        "redis://:hush@cache.example:6379/0",
        "https://store.example/blob?sv=2024&sig=abcdefgh12345678",
        "Server=db;User=me;Password=hush;",
        "AUTHORIZATION: basic eC1hY2Nlc3M=",
        "ghp_" + "a" * 36,
        "github_pat_" + "a" * 40,
        "sk-" + "proj-" + "a" * 40,
        "hf_" + "a" * 34,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "xox" + "b-1234567890-abcdef",
        "xapp" + "-1-BmONjjFnPv",
        "ASIA" + "ABCDEFGHIJKL",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    ],
)
def test_values_that_are_secrets_are_known_under_any_name(value: str) -> None:
    assert looks_secret("HARMLESS", value)


def test_a_number_is_no_token_but_may_be_a_password() -> None:
    assert not looks_secret("MAX_TOKEN", "512")
    assert looks_secret("DB_PASSWORD", "512")


def test_gits_configuration_is_passed_whole_or_not_at_all() -> None:
    safe = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    assert withhold_secrets(safe, ()) == (safe, ())
    header = {
        **safe,
        "GIT_CONFIG_KEY_0": "http.extraheader",
        "GIT_CONFIG_VALUE_0": "Authorization: basic c2VjcmV0",
    }
    assert withhold_secrets({**header, "HOME": "/h"}, ()) == ({"HOME": "/h"}, tuple(sorted(header)))
    assert withhold_secrets(header, tuple(header)) == (header, ())


def test_secrets_are_withheld_and_named_in_order() -> None:
    env = {"PATH": "/bin", "WANDB_API_KEY": "w", "HF_TOKEN": "h", "DATA": "postgres://me:hush@db/x"}
    assert withhold_secrets(env, ()) == ({"PATH": "/bin"}, ("DATA", "HF_TOKEN", "WANDB_API_KEY"))


def test_what_pass_env_names_is_passed() -> None:
    env = {"HF_TOKEN": "h", "HF_TOKEN_2": "i"}
    assert withhold_secrets(env, ("HF_TOKEN", "ABSENT")) == ({"HF_TOKEN": "h"}, ("HF_TOKEN_2",))


OUTER = {
    "PATH": "/bin",
    "CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
    "NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
    "NSYS_PROFILING_SESSION_ID": "1",
    "NSYS_AGENT_TMP_DIR": "/tmp",
    "NSYS_STATS_REPORT_PATH": "/my/reports",
    "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0",
    "QUADD_INJECTION_PROXY": "NVTX",
}


def test_an_nsys_around_perfgate_leaves_no_trace() -> None:
    assert without_profiler(OUTER) == {"PATH": "/bin", "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"}


def test_of_preloaded_libraries_only_the_profilers_are_dropped() -> None:
    injected = "/opt/nsys/libToolsInjectionProxy64.so:/opt/nsys/libLinuxKeyboardInterceptorProxy.so"
    assert without_profiler({"LD_PRELOAD": injected}) == {}
    assert without_profiler({"LD_PRELOAD": f"{injected}:/usr/lib/libjemalloc.so.2"}) == {
        "LD_PRELOAD": "/usr/lib/libjemalloc.so.2"
    }
