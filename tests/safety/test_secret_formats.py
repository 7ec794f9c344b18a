"""Secrets in published formats and under telling names are found; their lookalikes in programs are not."""

from __future__ import annotations

import random

import pytest
from secret_formats import make, templates

from coder.policy.secrets.formats import find_secrets
from coder.policy.secrets.redact import Redactor
from kit import ScriptedServer
from kit.driving import Project, drive

TEMPLATES = templates()
HARMLESS = """
password = ""
password=''
password: str
password: str | None = None
password: Optional[str]
password: SecretStr,
token: Token
api_key: string;
password = get_password()
password = getpass.getpass("Password: ")
password = request.form["password"]
password = settings.DATABASES["default"]["PASSWORD"]
token = secrets.token_urlsafe(32)
secret = await client.read_secret(name, version=2)
PASSWORD=$PASSWORD
PASSWORD=${PASSWORD:-postgres}
TOKEN="$(pass show token)"
token: ${{ secrets.GITHUB_TOKEN }}
password: {{ vault_db_password }}
password: <your-password>
password: "changeme"
password: change-me-1
password=xxxxxxxx1
api_key = "YOUR_API_KEY_123456"
api_key: your-api-key-here-1234
password="password123"
password = 'test1234'
"password": "********"
login(username="user", password="secret1")
POSTGRES_PASSWORD: postgres
MYSQL_ROOT_PASSWORD=root
password: "%(password)s"
password: '{password}'
password: "%s"
password_file: /run/secrets/db_password_2024
PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
"password": "pbkdf2_sha256$720000$Vo0VlMnkR4Bk$qEvtdyZRWTcOsCnI/oQ7fVOu1XAURIZYoOZ3iq8Dr4M="
password_hash = "$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW"
fields = ["old_password", "new_password1", "new_password2"]
<label for="id_password2">Confirm</label>
<password>{password}</password>
pattern = re.compile(r"(?P<password>[^/?#\\s]+)@(?P<host>.+)")
usage: tool --password PASSWORD --token TOKEN
tool --password "$DB_PASSWORD" --token=$TOKEN
if password == confirm_password2:
max_tokens: 128000
tokenizer = AutoTokenizer.from_pretrained("Qwen2.5-Coder-1.5B")
cache_key = "user:1234:profile-v2"
primary_key = Column(Integer, primary_key=True)
sort_key: 2024-01-01T00:00:00Z
public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHx3v9mQ2kLr8T5yWz1uB7nC4dE6fG0hJ2iK"
csrf_token: "{% csrf_token %}"
Authorization: Bearer <token>
Authorization: Basic <credentials>
Authorization: Basic dXNlcjpwYXNzd29yZA==
auth = (username, password1)
auth: required
headers["Authorization"] = f"Bearer {access_token_v2}"
machine_type: n2-standard-4
git push -u origin security/5.2.x:security/5.2.x
curl -u "$USER:$PASSWORD" https://example.org
mysql -u root -p app
docker run -p 8080:80 app
sig=verify(signature)
the token is passed as `token=` and the password as `password=`
commit 3f786850e387550fdab836ed7e6dc881de23001b
"id": "123e4567-e89b-12d3-a456-426614174000"
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
npm_config_registry_and_some_more_words_that_follow_it=1
napi_create_string_utf8_and_more_of_these_names_of_functions
sk-fading-circle-dot-animation-delay-for-all-of-these
test_0123456789abcdef.py
https://user:password@localhost/db
""".strip().splitlines()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_secret_in_a_known_format_becomes_a_placeholder(name: str) -> None:
    found = 0
    for seed in range(5):
        text, secret = make(TEMPLATES[name], random.Random(f"{name} {seed}"))
        redactor = Redactor()
        shown = redactor.redact(text)
        found += secret not in shown and secret.strip()[-8:] not in shown
        assert redactor.restore(shown) == text
        assert redactor.redact(shown) == shown
    assert found >= 4  # chance makes a value look like a word now and then


def test_there_are_formats_enough_to_measure_by() -> None:
    assert len(TEMPLATES) >= 150


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_of_a_program_stays(line: str) -> None:
    for text in (line, f"    {line}\n", f"x = 1\n{line}\ny = 2\n"):
        assert [text[start:end] for start, end, _ in find_secrets(text)] == []


def test_no_format_reaches_model_or_record(project: Project) -> None:
    pairs = [make(template, random.Random(name)) for name, template in TEMPLATES.items()]
    for number in range(0, len(pairs), 40):
        project.write(
            f"part_{number}.txt", "\n\n".join(text for text, _ in pairs[number : number + 40]) + "\n"
        )
    calls = [
        {"calls": [{"name": "read", "arguments": {"path": f"part_{n}.txt"}}]}
        for n in range(0, len(pairs), 40)
    ]
    with ScriptedServer([*calls, {"text": "done"}]) as server:
        drive(project, server.url, ["go"])
    told = "\n".join(message["content"] or "" for message in server.chats[-1]["messages"])
    kept = "".join(path.read_text(encoding="utf-8") for path in (project.cwd / ".coder").rglob("*.jsonl"))
    secrets = [secret.strip() for _, secret in pairs if "\n" not in secret.strip()]
    assert [secret for secret in secrets if secret in told or secret in kept] == []


def test_a_password_that_is_a_word_is_not_replaced_in_ordinary_text() -> None:
    redactor = Redactor()
    shown = redactor.redact("machine h login me password sunshine\n")
    assert "sunshine" not in shown
    assert redactor.redact("The sunshine is bright") == "The sunshine is bright"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "piece",
    [
        "password=",
        "password: '",
        'password="a',
        "--token ",
        "login a password ",
        "<password>",
        "authorization: basic ",
        "bearer a.b-",
        ".eyJ",
        "eyJ.eyJ",
        "Private-Lines: 9\n" + "A" * 50 + "\n",
        '"kty","d":"',
        "curl -u a:",
        "mysql -p ",
        "identified by '",
        "name: password\n value: ",
        "sig=" + "a" * 50,
        "xoxb-1",
        "A1b2" * 5 + "MTA.",
        "-----END PRIVATE KEY-----\n",
        "ghp_a… [",
        "\\",
        "a" * 30 + "\n",
        "s.",
        "1/1",
    ],
)
def test_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    """A test that hangs is the failure."""
    find_secrets(piece * (1_000_000 // len(piece)))
