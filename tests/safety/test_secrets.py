"""What is taken for a secret and what is not; placeholders out, secrets back in, and nothing in between."""

from __future__ import annotations

import base64
import hashlib
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.policy.secrets.formats import find_secrets
from coder.policy.secrets.redact import Redactor, UnknownPlaceholder

_dice = random.Random(7)


def some(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Random characters; made here, because a real-looking key in a repository sets off alarms elsewhere."""
    return "".join(_dice.choices(letters, k=length))


UPPER = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
URL_SAFE = string.ascii_letters + string.digits + "-_"
PEM_BODY = "\n".join(some(64) for _ in range(12))


def jwt() -> str:
    return ".".join(("eyJ" + some(30, URL_SAFE), "eyJ" + some(60, URL_SAFE), some(43, URL_SAFE)))


# the text, and the part of it that must not stay
SECRETS: dict[str, tuple[str, str]] = {}


def positive(name: str, template: str, secret: str) -> None:
    SECRETS[name] = (template.replace("@@", secret), secret)


positive("aws id", "key @@ used", "AKIA" + some(16, UPPER))
positive("aws secret", "aws_secret_access_key = @@", some(20) + "/" + some(19))
positive("github", "git clone https://@@@github.com/x", "ghp_" + some(36))
positive("github fine", 'token: "@@"', "github_pat_" + some(22) + "_" + some(59))
positive("gitlab", "@@", "glpat-" + some(20))
positive("openai old", "OPENAI_API_KEY=@@", "sk-" + some(48))
positive("openai project", "export KEY=@@\n", "sk-proj-" + some(80, URL_SAFE) + "9zA")
positive("anthropic", "{'k': '@@'}", "sk-ant-api03-" + some(93, URL_SAFE))
positive("google", "https://maps/api?key=@@&q=1", "AIza" + some(35))
positive("google secret", "@@", "GOCSPX-" + some(28))
positive(
    "slack bot",
    "SLACK=@@",
    "xoxb-" + some(12, string.digits) + "-" + some(13, string.digits) + "-" + some(24),
)
positive(
    "slack hook", "https://hooks.slack.com/services/@@", f"T{some(9, UPPER)}/B{some(9, UPPER)}/{some(24)}"
)
positive("stripe", "stripe.api_key = '@@'", "sk_live_" + some(24))
positive("stripe hook", "@@", "whsec_" + some(32))
positive("jwt", "Cookie: session=@@; path=/", jwt())
positive("npm", "//registry.npmjs.org/:_authToken=@@", "npm_" + some(36))
positive("pypi", "password = @@", "pypi-AgEIcHlwaS5vcmc" + some(120, URL_SAFE))
positive("huggingface", "@@", "hf_" + some(34))
positive("sendgrid", "@@", f"SG.{some(22)}.{some(43)}")
positive("vault", "VAULT_TOKEN=@@", "hvs." + some(90))
positive("pem", "@@\n", f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----")
positive(
    "ssh", "x\n@@\ny", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM_BODY}\n-----END OPENSSH PRIVATE KEY-----"
)
positive(
    "pem in json", '"private_key": "@@"', "-----BEGIN PRIVATE KEY-----\\n" + PEM_BODY.replace("\n", "\\n")
)
positive("pem cut off", "@@", f"-----BEGIN EC PRIVATE KEY-----\n{PEM_BODY}")
positive("env", "DB_PASSWORD=@@\nNEXT=1", "q7Xk2Lm9Rt4Vz8")
positive("env secret", "export SECRET_KEY_BASE='@@'", some(64, HEX))
positive("json", '{"client_secret": "@@", "n": 1}', "a8F3kQ9zL2mX7pT5")
positive("yaml", "  apiKey: @@\n", "Zk3mP9qR7tW2xY5v")
positive("escaped json", '{\\"token\\": \\"@@\\"}', "Zk3mP9qR7tW2xY5v")
positive("arrow", "'password' => '@@',", "S3cr3tP4ssw0rd!2024")
positive("query", "GET /x?access_token=@@&page=2", "b7F2kQ8zL3mX6pT4aa")
positive("bearer", 'curl -H "Authorization: Bearer @@"', "c7F2kQ8zL3mX6pT4aaQ1")
positive("azure", "AccountName=x;AccountKey=@@;End", some(86) + "==")
positive("database", "postgres://app:@@@db.internal:5432/x", "uR5tq8Lw")
positive("after an escape", '{"text": "first\\n@@"}', "ghp_" + some(36))
positive("in a query, encoded", "GET /x?next=a%3D@@", "ghp_" + some(36))
positive("coloured before", "\x1b[01;31m\x1b[K@@", "ghp_" + some(36))
positive("line cut by a tool", "@@… [1200 more characters]", "ghp_" + some(20) + "7")
positive("output cut by a tool", "x @@\n[… 9000 bytes left out …]\n", "ghp_" + some(9) + "7")
positive("end of a key", "@@", f"{PEM_BODY}\n-----END RSA PRIVATE KEY-----")
positive("upper case name", "API_KEY: @@", "Zk3mP9qR7tW2xY5v")

HARMLESS = {
    "git sha": "commit 3f786850e387550fdab836ed7e6dc881de23001b\nMerge: 89e6c98d92 a1b2c3d4e5",
    "short sha": "HEAD is now at 4a1f0c2 Fix token parsing",
    "uuid": "id: 123e4567-e89b-12d3-a456-426614174000\ntoken: 123e4567-e89b-12d3-a456-426614174000",
    "sha256": f"sha256:{hashlib.sha256(b'x').hexdigest()}  image.tar",
    "npm lock": '"integrity": "sha512-'
    + base64.b64encode(hashlib.sha512(b"x").digest()).decode()
    + '",\n"node_modules/js-tokens": {"version": "4.0.0"',
    "yarn lock": 'js-tokens@^4.0.0:\n  resolved "https://r.yarnpkg.com/js-tokens-4.0.0.tgz#19203fb59991df98e3a2"',
    "cargo lock": f'name = "secrecy"\nchecksum = "{hashlib.sha256(b"y").hexdigest()}"',
    "poetry lock": 'content-hash = "9f3b0c5d6a7e8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a"',
    "go sum": "github.com/golang/protobuf v1.5.0 h1:LUVKkCeviFUMKqHa4tXIIij/lbhnMbP7Fn5wKdKkRh4=",
    "image": "data:image/png;base64," + base64.b64encode(_dice.randbytes(3000)).decode(),
    "public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + some(43) + " me@host",
    "certificate": f"-----BEGIN CERTIFICATE-----\n{PEM_BODY}\n-----END CERTIFICATE-----",
    "end of a certificate": f"{PEM_BODY}\n-----END CERTIFICATE-----",
    "end without a key": "words\n-----END RSA PRIVATE KEY-----",
    "code": "token = self.get_access_token_v2(request)\nsecret = os.environ['SECRET']\npassword = getpass()",
    "identifier": "const token = parseAuthorizationToken;\nlet apiKey = config.services.primaryApiKey2;",
    "template": "API_KEY=${API_KEY}\nTOKEN=$TOKEN\npassword: {{ vault_password }}\nsecret=<your-secret-here>",
    "sample": "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\nOPENAI_API_KEY=sk-your-key-goes-here-please-now",
    "masked": "password=****************\ntoken: xxxxxxxxxxxxxxxxxxxx",
    "tokenizer": 'tokenizer = "Qwen2.5-Coder-1.5B-Instruct"\ntokenizer_model: meta-llama/Llama-3.1-8B',
    "css": ".sk-fading-circle .sk-circle-fade-dot-animation-delay {}",
    "count": "max_tokens=128000, total_tokens: 12345678901234",
    "url": "https://user@example.org/a:b@c http://localhost:80/x@y postgres://postgres:postgres@localhost/db",
    "path": "secret_file: /home/user/.config/app2/Keys/primary_2024\nkey: value",
    "public names": "key_binding=CtrlShiftF12 keyboard: QwertyLayout2024Extended",
    "prose": "A password must have 12 characters; tokens expire. Bearer of bad news, bearer authentication.",
    "sql": "CREATE TABLE tokens (secret TEXT, password VARCHAR(255) NOT NULL)",
    "test id": "tests/test_token.py::test_secret_token_is_refreshed_2[param0] PASSED",
    "hex colours": "passwordField: '#a1b2c3', tokenColor: '#00ff00aa'",
    "page": '"NextToken": "eyJNYXJrZXIiOiBudWxsLCAiYm90b190cnVuY2F0ZV9hbW91bnQiOiAzfQ=="',
    "assembly": 'publicKeyToken="1fc8b3b9a1e18e3b" version="9.0"',
    "types": '"AWS::ApiGateway::ApiKey": "48205d4ffd7feba3", "AWS::Secrets::Secret": "c85175a4ebcce361"',
    "annotation": "def f(private_key: x25519.X25519PrivateKey, secret = rust.hpke.MLKEM768X25519SecretValue)",
    "key left out": "-----BEGIN RSA PRIVATE KEY-----\\n"
    + "omitted for reasons " * 9
    + "-----END RSA PRIVATE KEY-----",
    "html": "git+ssh://[&lt;user&gt;[:&lt;password&gt;]@]&lt;host&gt; cvs://:pserver:anoncvs@sourceware.org/",
    "version": "apiKeyVersion: 2024-11-05T12:34:56Z",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_does_not_get_through(name: str) -> None:
    text, secret = SECRETS[name]
    redactor = Redactor()
    shown = redactor.redact(text)
    assert secret not in shown
    assert secret[-12:] not in shown
    assert redactor.count >= 1
    assert redactor.restore(shown) == text


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_one_stays(name: str) -> None:
    redactor = Redactor()
    assert redactor.redact(HARMLESS[name]) == HARMLESS[name]
    assert redactor.count == 0


def test_our_own_sources_hold_none() -> None:
    root = Path(__file__).parents[2]
    for path in [*root.glob("src/**/*.py"), *root.glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert [text[start:end] for start, end, _ in find_secrets(text)] == [], path


def test_the_same_secret_has_the_same_placeholder() -> None:
    redactor = Redactor()
    secret = "ghp_" + some(36)
    first = redactor.redact(f"a {secret} b")
    second = redactor.redact(f"GITHUB_TOKEN={secret}")
    assert first.split()[1] == second.partition("=")[2]
    assert redactor.count == 1
    assert redactor.redact(first) == first


def test_two_sessions_have_different_placeholders_unless_they_share_a_key() -> None:
    text = "token: ghp_" + some(36)
    assert Redactor().redact(text) != Redactor().redact(text)
    assert Redactor(b"k" * 16).redact(text) == Redactor(b"k" * 16).redact(text)


def test_colours_inside_a_secret_hide_it_from_nobody() -> None:
    secret = "ghp_" + some(36)
    shown = Redactor().redact(f"T=\x1b[01;31m\x1b[Kgh\x1b[m\x1b[K{secret[2:]} \x1b[32mgreen\x1b[0m")
    assert secret[2:] not in shown
    assert "\x1b[32mgreen" in shown


def test_every_line_of_a_key_is_known_and_counted_as_one_secret() -> None:
    redactor = Redactor()
    redactor.learn(f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n-----END PRIVATE KEY-----")
    line = PEM_BODY.splitlines()[1]
    shown = redactor.redact(f"key.pem:3:{line}")
    assert line not in shown
    assert redactor.restore(shown) == f"key.pem:3:{line}"
    assert redactor.count == 1


def test_a_placeholder_that_somebody_wrote_is_only_text() -> None:
    redactor = Redactor()
    token = "ghp_" + some(36)
    name = redactor.redact(token)
    told = redactor.redact(redactor.quoted(f"copy {name} and __coder_secret_x_0123456789__"))
    assert name not in told
    assert "__coder_secret_x_0123456789__" in told
    assert redactor.restore(told.split()[1]) == name
    assert redactor.restore(name) == token
    assert redactor.count == 1


def test_a_placeholder_of_nobody_is_refused() -> None:
    text = "token: ghp_" + some(36)
    shown = Redactor().redact(text)
    with pytest.raises(UnknownPlaceholder) as caught:
        Redactor().restore(f"echo {shown}")
    assert caught.value.names == [shown.split()[1]]


def test_arguments_of_a_tool_are_restored_throughout() -> None:
    redactor = Redactor()
    secret = "npm_" + some(36)
    name = redactor.redact(secret)
    args = {"path": "a", "edits": [{"old": f"x{name}y"}, 3, None], "flag": True}
    assert redactor.restore_all(args) == {
        "path": "a",
        "edits": [{"old": f"x{secret}y"}, 3, None],
        "flag": True,
    }
    assert redactor.redact_all({"stdout": secret}) == {"stdout": name}


def test_known_values_are_secret_whatever_they_look_like() -> None:
    redactor = Redactor(known=["my plain pass phrase", "short"])
    shown = redactor.redact("it is my plain pass phrase, and short is not")
    assert "plain pass" not in shown
    assert "short" in shown


@given(st.text(max_size=200), st.sampled_from(sorted(SECRETS)), st.text(max_size=200))
def test_restoring_gives_back_every_text(before: str, name: str, after: str) -> None:
    redactor = Redactor()
    text = f"{before} {SECRETS[name][0]} {after}"
    shown = redactor.redact(text)
    assert redactor.restore(shown) == text
    assert redactor.redact(shown) == shown


@pytest.mark.thorough
@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "token=",
        "sk-",
        "eyJ",
        "eyJ" * 3000 + ".",
        "://a:b",
        "password: ",
        "-----BEGIN PRIVATE KEY-----",
        "=",
    ],
)
def test_a_line_of_megabytes_ends(piece: str) -> None:
    """No expression may take longer than the line is long; a test that hangs is the failure."""
    find_secrets(piece * (2_000_000 // len(piece)))
