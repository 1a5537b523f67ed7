"""Definitions of agents: a coding CLI as data, from a TOML file in `clients/` or of the user.

A definition says how the client is started and resumed, and how its output is read. No client is known to the code by
name, and no code of a client runs here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import model_validator

from evopolicygym.agents import templates, turn
from evopolicygym.agents.failures import FailureKind
from evopolicygym.agents.json_events import Scalar
from evopolicygym.agents.templates import Part
from evopolicygym.agents.turn import Turn
from evopolicygym.agents.usage import Meter
from evopolicygym.config import StrictModel, read_toml, validate
from evopolicygym.errors import UserError

TEMPLATE_NAMES: Final = frozenset({
    "program", "prompt", "model", "provider", "model_name", "base_url", "origin", "path", "session", "new_session",
    "max_turns", "workspace", "home", "key_name",
})  # fmt: skip
MODEL_NAMES: Final = frozenset({"model", "provider", "model_name"})
URL_NAMES: Final = frozenset({"base_url", "origin", "path"})
MAX_ARGUMENT_BYTES: Final = 131_071  # of one argument, on Linux


class ExtractRule(StrictModel):
    """Where a value stands in a client's output: at the path ``at`` of events that match ``where`` (the last one
    counts), or in the group of the regular expression ``line`` over lines that are not JSON. ``file``: look in a file
    below HOME instead, for clients that were killed before they printed it; for sessions only."""

    where: dict[str, Scalar] = {}
    at: str = ""
    line: str = ""
    file: str = ""


class FailureRule(StrictModel):
    """Events that report a failed turn. ``matches``: a regular expression over the text at ``at``. ``lacks``: paths
    that such an event does not have, where a client prints errors as if its model had said them. ``file``: look in
    session files, as for usage. ``line``: instead of an event, a regular expression over lines of the client's standard
    error, whose group is the error. Without ``kind`` the text decides, and ``otherwise`` if it has no known words."""

    where: dict[str, Scalar] = {}
    lacks: tuple[str, ...] = ()
    at: str = ""
    matches: str = ""
    kind: FailureKind | None = None
    otherwise: FailureKind = FailureKind.CLIENT
    file: str = ""
    line: str = ""


class Install(StrictModel):
    """How to install a client. ``command`` installs ``version``, which the definition was tested with. ``minimum`` is
    the oldest version that has played a whole run; older ones are refused. ``modules``: what its Python must import."""

    command: str
    version: str
    minimum: str = ""
    node: str = ""
    needs: str = ""
    modules: tuple[str, ...] = ()


class Login(StrictModel):
    """Where a login file (one of ``credentials``) says when it expires, in milliseconds since 1970, and holds what the
    client renews it with: paths in its JSON."""

    file: str
    expires: str
    renewal: str = ""


class Vendor(StrictModel):
    """A provider that a client can use with an API key. ``url`` is the base URL of its API, as the client takes it;
    ``keys`` are the variables of which one holds its key; ``provider`` is that of models PROVIDER/NAME, empty for all
    models. ``environment`` sends the client to another address of this API, in place of the client's own variables.
    ``api``: the format of its calls, which a server at another address must understand; empty if it may be any."""

    url: str
    keys: tuple[str, ...]
    provider: str = ""
    environment: dict[str, str] = {}
    api: Literal["", "openai-chat", "openai-responses", "anthropic-messages", "gemini"] = ""


@dataclass(frozen=True)
class VendorAddress:
    """Address at which a client finds the API of a vendor in one run."""

    vendor: Vendor
    base_url: str


class Client(StrictModel):
    """One client.

    ``turns``: ``many`` starts a process for every turn, ``once`` starts it a single time, ``json_lines`` exchanges JSON
    lines with one process (`json_lines.py`). ``keys``: variables, one of which holds the key. ``credentials``: login
    files that may be copied to its HOME instead. ``done``: a turn without such an event has failed. ``waiting``: events
    printed while it retries; if it is killed then, they say why it hung. ``providers``: its models are PROVIDER/NAME
    with one of these. ``ships``: it is a built-in, and ``packages`` are the pure Python packages that it needs beside
    numpy and scipy. ``vendors``: the providers whose calls the gateway can carry without another address."""

    name: str
    title: str
    program: str
    argv: tuple[Part, ...]
    turns: Literal["many", "once", "json_lines"] = "many"
    prompt: Literal["stdin", "argument"] = "stdin"
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    defaults: dict[str, str] = {}
    keys: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    login: Login | None = None
    hosts: tuple[str, ...] = ()
    context_file: str = "AGENTS.md"
    version: tuple[str, ...] = ("${program}", "--version")
    install: Install | None = None
    notes: str = ""
    session: tuple[ExtractRule, ...] = ()
    text: tuple[ExtractRule, ...] = ()
    served: tuple[ExtractRule, ...] = ()
    usage: tuple[Meter, ...] = ()
    done: tuple[dict[str, Scalar], ...] = ()
    failure: tuple[FailureRule, ...] = ()
    waiting: tuple[FailureRule, ...] = ()
    exit_codes: dict[str, FailureKind] = {}
    ships: bool = False
    packages: tuple[str, ...] = ()
    joins_text: bool = False
    needs_model: bool = False
    providers: tuple[str, ...] = ()
    vendors: tuple[Vendor, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Client:
        if wrong := [text for text in self._templates() if not templates.is_valid(text)]:
            raise ValueError(f"not a template: {wrong[0]!r} (write $$ for a dollar sign)")
        if self.prompt == "argument" and not any("prompt" in templates.names(text) for text in _flat(self.argv)):
            raise ValueError("the prompt is an argument, but no ${prompt} is in argv")
        return self

    @property
    def can_resume(self) -> bool:
        return any("session" in templates.names(text) for text in _flat(self.argv))

    @property
    def session_files(self) -> frozenset[str]:
        return frozenset({meter.file for meter in self.usage} | {rule.file for rule in self.failure}) - {""}

    @property
    def options(self) -> frozenset[str]:
        """Options that a user may set: all names in templates that the driver does not fill itself."""
        return frozenset().union(*(templates.names(text) for text in self._templates())) - TEMPLATE_NAMES

    def allowed_hosts(self, base_url: str | None = None) -> tuple[str, ...]:
        """Return `host` or `host:port` entries for the proxy. The host of a base URL replaces the vendor's."""
        return (urlsplit(base_url).netloc.rpartition("@")[2],) if base_url else self.hosts

    def command(self, inputs: CommandInputs) -> Command:
        self.check(inputs.model, inputs.base_url, inputs.options, inputs.keys)
        if self.prompt == "argument" and len(inputs.prompt.encode()) > MAX_ARGUMENT_BYTES:
            raise UserError(f"the prompt is too long for {self.name}, which takes it as an argument")
        values = self._values(inputs)
        environment = templates.fill_table(self.environment, values)
        for address in inputs.vendors:
            given = values | _url_values(address.base_url)
            environment |= templates.fill_table(address.vendor.environment, given)
        keys = {name: inputs.keys[name] for name in self.keys if name in inputs.keys}
        return Command(
            argv=templates.fill_parts(self.argv, values),
            stdin=inputs.prompt if self.prompt == "stdin" else None,
            environment=environment | keys,
            files=templates.fill_table(self.files, templates.json_safe(values)),
            session=inputs.session or (values["new_session"] if self._names_sessions() else None),
        )

    def read(self, lines: Iterable[str], ended: turn.ProcessExit) -> Turn:
        return turn.read_turn(self, lines, ended)

    def check(self, model: str | None, base_url: str | None, options: Iterable[str], keys: Iterable[str]) -> None:
        """Raise UserError, with a remedy, if the client cannot be used with these settings."""
        self._check_model(model)
        if unknown := sorted(set(options) - self.options):
            valid = ", ".join(sorted(self.options)) or "none"
            raise UserError(f"{self.name} has no option {unknown[0]!r}; its options are: {valid}")
        if base_url and not self._uses(URL_NAMES):
            raise UserError(f"{self.name} cannot be sent to another server", "Leave --model-url (model_url=) out.")
        if base_url and self.keys and not set(self.keys) & set(keys):
            raise UserError(
                f"{self.name} needs a key for {base_url}",
                f"Set {self.keys[0]}, to any word if the server needs no key.",
            )

    def _check_model(self, model: str | None) -> None:
        providers = " or ".join(self.providers)
        if self.needs_model and not model:
            form = f"PROVIDER/NAME, with {providers} as the provider. " if providers else ""
            raise UserError(f"{self.name} needs a model", f"Add --model (model=). {form}{self.notes}".strip())
        if model and not self._uses(MODEL_NAMES):
            raise UserError(f"{self.name} takes no model", "Leave --model (model=) out.")
        if model and self.providers and model.partition("/")[0] not in self.providers:
            raise UserError(
                f"{model!r} names no provider that {self.name} knows",
                f"Write {providers}, then a slash and the name of the model.",
            )

    def _uses(self, names: frozenset[str]) -> bool:
        return any(templates.names(text) & names for text in self._templates())

    def _values(self, inputs: CommandInputs) -> dict[str, str]:
        provider, slash, model_name = (inputs.model or "").partition("/")
        given: dict[str, str | None] = {
            "program": inputs.program or self.program,
            "prompt": inputs.prompt,
            "model": inputs.model,
            "provider": provider if slash else None,
            "model_name": model_name if slash else inputs.model,
            **_url_values(inputs.base_url),
            "session": inputs.session,
            "new_session": None if inputs.session else inputs.new_session,
            "max_turns": None if inputs.max_turns is None else str(inputs.max_turns),
            "workspace": str(inputs.workspace),
            "home": str(inputs.home),
            "key_name": next((name for name in self.keys if name in inputs.keys), None),
        }
        return self.defaults | {
            name: value for name, value in (given | dict(inputs.options)).items() if value is not None
        }

    def _names_sessions(self) -> bool:
        return any("new_session" in templates.names(text) for text in _flat(self.argv))

    def _templates(self) -> list[str]:
        of_vendors = [text for vendor in self.vendors for text in vendor.environment.values()]
        return [*_flat(self.argv), *self.environment.values(), *self.files.values(), *self.version, *of_vendors]

    def vendor(self, model: str | None, keys: Iterable[str]) -> Vendor | None:
        """Return the vendor that serves a model, if one of its keys is there."""
        provider = (model or "").partition("/")[0]
        fitting = (vendor for vendor in self.vendors if vendor.provider in ("", provider))
        return next((vendor for vendor in fitting if set(vendor.keys) & set(keys)), None)


@dataclass(frozen=True)
class CommandInputs:
    """Values for the templates of one turn's command. ``keys``: key variables; no other secret is passed on."""

    prompt: str
    workspace: Path
    home: Path
    model: str | None = None
    session: str | None = None
    base_url: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_turns: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    vendors: tuple[VendorAddress, ...] = ()
    new_session: str = field(default_factory=lambda: str(uuid4()))


@dataclass(frozen=True)
class Command:
    """Command that runs one turn. ``environment``: everything the client needs beside PATH, HOME and TMPDIR. ``files``:
    written to its HOME before it starts. ``session``: the name of the conversation, if known beforehand."""

    argv: tuple[str, ...]
    stdin: str | None
    environment: dict[str, str] = field(repr=False)
    files: dict[str, str]
    session: str | None


def _url_values(base_url: str | None) -> dict[str, str]:
    if not base_url:
        return {}
    url = urlsplit(base_url)
    return {"base_url": base_url, "origin": f"{url.scheme}://{url.netloc}", "path": url.path.strip("/")}


def _flat(parts: Iterable[Part]) -> list[str]:
    return [item for part in parts for item in ((part,) if isinstance(part, str) else part)]


COMMAND: Final = "command"
PYTHON: Final = "python:"  # begins the name of an agent that is a Python function
CLIENTS_FOLDER: Final = Path(str(resources.files("evopolicygym.agents"))) / "clients"


def names() -> list[str]:
    return sorted(path.stem for path in CLIENTS_FOLDER.glob("*.toml") if path.stem != COMMAND)


def load(name: str) -> Client:
    """Load a client that ships, or the file if the name ends in `.toml`. Raises UserError."""
    if name.startswith(PYTHON):
        raise UserError(
            f"the agent {name!r} is a Python function, which a command cannot start",
            "In Python, call evopolicygym.run(task, function, folder=...) with the settings of the run.",
        )
    if name.endswith(".toml"):
        return _from_file(Path(name))
    if name not in (*names(), COMMAND):
        raise unknown(name, [*names(), COMMAND])
    return _shipped(name)


def command(argv: Sequence[str], json_lines: bool = False) -> Client:
    """Define an agent from any program: started once with the prompt, or used over JSON lines."""
    if not argv:
        raise UserError(
            "--agent command needs a program", "Write it after two dashes: --agent command -- ./my-agent.sh"
        )
    literal = ("${program}", *(item.replace("$", "$$") for item in argv[1:]))
    turns = "json_lines" if json_lines else "once"
    return load(COMMAND).model_copy(update={"argv": literal, "program": argv[0], "turns": turns})


def unknown(name: str, agents: Sequence[str]) -> UserError:
    """Return the error for an agent that does not exist, with similar names."""
    near = get_close_matches(name, agents, n=3, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}? " if near else ""
    return UserError(
        f"there is no agent {name!r}",
        f"{hint}`evopolicygym agent list` lists the agents; `evopolicygym docs agents` explains how to define one.",
    )


@cache
def _shipped(name: str) -> Client:
    return _from_file(CLIENTS_FOLDER / f"{name}.toml")


def _from_file(path: Path) -> Client:
    return validate(Client, {"name": path.stem, **read_toml(path, "client file")}, f"the client file {path}")
