"""Client definitions: shipped ones are valid, mistakes in others are named, and commands follow from them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from evopolicygym.agents import definitions, home, readiness
from evopolicygym.agents.definitions import Client, CommandInputs
from evopolicygym.agents.usage import Meter
from evopolicygym.errors import UserError
from process_helpers import assert_killed_in, kill_self

OWN = """\
title = "My client"
program = "my-client"
argv = ["${program}", "run", ["--model", "${model}"], ["--resume", "${session}"], ["--effort", "${effort}"]]
keys = ["MY_KEY"]
environment = { MY_URL = "${base_url}", QUIET = "1" }
files = { ".my/settings.json" = '{"model": "${model}"}' }
session = [{ where = { type = "start" }, at = "id" }]
done = [{ type = "end" }]
"""


CLIENTS = [name for name in definitions.names() if not definitions.load(name).ships]


def ask(prompt: str = "Play.", **more) -> CommandInputs:
    return CommandInputs(prompt, Path("/workspace"), Path("/home"), **more)


def own(tmp_path: Path, text: str = OWN):
    (tmp_path / "mine.toml").write_text(text)
    return definitions.load(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("name", CLIENTS)
def test_shipped_definitions_are_valid(name):
    client = definitions.load(name)
    keys = {client.keys[0]: "the-key"}
    first = client.command(ask(model="a/b", keys=keys))
    again = client.command(ask(model="a/b", keys=keys, session="s-1"))
    assert first.argv[0] == client.program and first.environment[client.keys[0]] == "the-key"
    assert ("s-1" in again.argv) == client.can_resume and "s-1" not in first.argv
    assert not any("the-key" in item for item in (*first.argv, *first.files.values())) and "the-key" not in repr(first)
    assert client.install and client.install.version in client.install.command
    assert client.usage and (client.session or name in ("goose", "mini-swe-agent"))
    assert (first.stdin == "Play.") is (client.prompt == "stdin")


@pytest.mark.parametrize("name", CLIENTS)
def test_a_base_url_replaces_the_hosts(name):
    client = definitions.load(name)
    url = "http://127.0.0.1:8000/v1"
    made = client.command(ask(model="a/b", base_url=url, keys={client.keys[0]: "k"}))
    assert "127.0.0.1:8000" in repr((made.argv, made.environment))
    assert client.allowed_hosts(url) == ("127.0.0.1:8000",) and client.allowed_hosts() == client.hosts
    with pytest.raises(UserError, match="to any word if the server needs no key"):
        client.command(ask(model="a/b", base_url=url))


def test_options_without_a_value_are_left_out(tmp_path):
    client = own(tmp_path)
    assert client.command(ask()).argv == ("my-client", "run")
    full = client.command(ask(model='a"b', session="s", base_url="http://u", keys={"MY_KEY": "k", "OTHER": "secret"}))
    assert full.argv == ("my-client", "run", "--model", 'a"b', "--resume", "s")
    assert full.environment == {"MY_URL": "http://u", "QUIET": "1", "MY_KEY": "k"}
    assert full.files == {".my/settings.json": '{"model": "a\\"b"}'}


def test_options_are_whatever_the_templates_name(tmp_path):
    client = own(tmp_path)
    assert client.options == {"effort"}
    assert client.command(ask(options={"effort": "high"})).argv[-1] == "high"
    with pytest.raises(UserError, match="no option 'effrt'; its options are: effort"):
        client.command(ask(options={"effrt": "high"}))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("keys =", "kyes =", r"kyes: there is no such key; did you mean keys\?"),
        ("at =", "et =", r"session.0.et: there is no such key; did you mean at\?"),
        ('title = "My client"\n', "", "title: Field required"),
        ("${model}", "${mo del}", "not a template"),
        ('program = "my-client"', 'program = "my-client"\nprompt = "argument"', r"no \$\{prompt\} is in argv"),
        ("argv = [", "argv = ", "is not TOML"),
    ],
)
def test_a_mistake_in_a_definition_is_explained(tmp_path, old, new, message):
    with pytest.raises(UserError, match=message):
        own(tmp_path, OWN.replace(old, new))


def test_the_documentation_matches_the_definitions(tmp_path):
    """The example of the page is a definition that uses every key. Its table has the versions that are proven."""
    text = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    example = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[-1]
    client = own(tmp_path, example)
    assert set(Client.model_fields) - set(tomllib.loads(example)) == {"name", "ships", "packages"}
    assert set(Meter.model_fields) - set(tomllib.loads(example)["usage"][0]) == {"file"}
    assert client.options == {"effort"} and client.can_resume
    for name in CLIENTS:
        install = definitions.load(name).install
        assert install and install.command in text


def test_a_client_that_is_not_installed_names_the_node_version_it_needs(tmp_path):
    result = readiness.check(definitions.load("qwen"), {"PATH": str(tmp_path)}, tmp_path)
    assert "qwen is not in PATH" in result.missing[0] and "requires Node 22 or newer; no Node is" in result.remarks[0]


def test_a_definition_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml: No such file or directory\n.*evopolicygym docs agents"):
        definitions.load(str(tmp_path / "none.toml"))


def test_an_unknown_agent_gets_the_nearest_names():
    with pytest.raises(UserError, match="Did you mean claude"):
        definitions.load("cluade")


def test_a_command_is_not_changed():
    client = definitions.command(["./agent.sh", "$HOME", "${model}"])
    made = client.command(ask(model="m"))
    assert made.argv == ("./agent.sh", "$HOME", "${model}") and made.stdin == "Play."
    assert client.command(ask(program="/found/agent.sh")).argv[0] == "/found/agent.sh"
    assert made.environment == {"EVOPOLICYGYM_PROMPT": "Play.", "EVOPOLICYGYM_MODEL": "m"}
    with pytest.raises(UserError, match="after two dashes"):
        definitions.command([])


def test_a_prompt_that_is_too_long_for_an_argument():
    with pytest.raises(UserError, match="too long"):
        definitions.load("kimi").command(ask("x" * 131_072, model="m"))


def test_a_home_is_seeded_without_following_links(tmp_path):
    folder, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    home.seed(folder, {".a/b/settings": "1", "plain": "2"})
    home.seed(folder, {"plain": "3"})
    assert (folder / ".a" / "b" / "settings").read_text() == "1" and (folder / "plain").read_text() == "2"
    (folder / ".c").symlink_to(elsewhere)
    for name in (".c/settings", "../outside", "/absolute"):
        with pytest.raises(UserError):
            home.seed(folder, {name: "4"})
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(home.HomeUnusable):
        home.seed(tmp_path / "link", {"plain": "4"})
    assert not list(elsewhere.iterdir())


@pytest.fixture
def killed(monkeypatch):
    """A home whose giver is killed when a file is there, and nothing in it."""

    def seed(folder: Path) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(home, "_give", kill_self)
            assert_killed_in(lambda: home.seed(folder, {"plain": "1"}))
        assert [path.stat().st_size for path in folder.iterdir()] == [0]
        return folder

    return seed


def test_settings_are_complete_after_a_kill(tmp_path, killed):
    home.seed(killed(tmp_path), {"plain": "1"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("plain", "1")]


def test_no_part_of_a_login_is_left_after_a_kill(tmp_path, killed):
    home.remove(killed(tmp_path), "plain")
    assert not list(tmp_path.iterdir())


def test_only_declared_credentials_are_copied(tmp_path):
    real, folder = tmp_path / "real", tmp_path / "home"
    (real / ".codex").mkdir(parents=True)
    folder.mkdir()
    for name in ("auth.json", "history.jsonl"):
        (real / ".codex" / name).write_text(name)
    assert home.copy_credentials([".codex/auth.json", ".codex/none"], real, folder).keys() == {".codex/auth.json"}
    assert [path.name for path in (folder / ".codex").iterdir()] == ["auth.json"]
    assert (folder / ".codex" / "auth.json").stat().st_mode & 0o777 == 0o600
