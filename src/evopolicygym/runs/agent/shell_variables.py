"""Variables of the user's shell that say where a model is asked. They are used and named, or refused, never ignored:
a key for a company's gateway must not go to the vendor."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import Client
from evopolicygym.errors import UserError
from evopolicygym.runs.agent.gateway import ModelAccess, model_access
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess

# By the variable of a key: the variable with which clients and libraries of this vendor are sent to another address.
URL_VARIABLES: Final = {
    "ANTHROPIC_API_KEY": "ANTHROPIC_BASE_URL",
    "ANTHROPIC_AUTH_TOKEN": "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN": "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY": "OPENAI_BASE_URL",
    "CODEX_API_KEY": "OPENAI_BASE_URL",
    "GEMINI_API_KEY": "GOOGLE_GEMINI_BASE_URL",
    "KIMI_MODEL_API_KEY": "KIMI_MODEL_BASE_URL",
    "OPENROUTER_API_KEY": "OPENROUTER_BASE_URL",
    "LLM_API_KEY": "LLM_BASE_URL",
}
PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True)
class ShellUrl:
    """An address of a model's API in the user's shell."""

    variable: str
    url: str


def shell_model_url(agent: str, model: str | None, variables: Iterable[str]) -> ShellUrl | None:
    """Return the address in the shell that belongs to the key that an agent will use. ``variables``: those passed to a
    command with --agent-env."""
    with suppress(UserError):  # of an agent that does not exist, which is reported later
        client = definitions.load(agent)
        names = tuple(variables) if agent == definitions.COMMAND else client.keys
        present = [name for name in names if os.environ.get(name)]
        vendor = client.vendor(model, present) if client.vendors and agent != definitions.COMMAND else None
        keys = [name for name in present if vendor is None or name in vendor.keys]
        return _first_address(keys)
    return None


def _first_address(keys: Iterable[str]) -> ShellUrl | None:
    variables = [URL_VARIABLES[name] for name in keys if name in URL_VARIABLES]
    return next((ShellUrl(name, os.environ[name]) for name in variables if os.environ.get(name)), None)


def check_shell(client: Client, settings: AgentSettings) -> None:
    """Raise UserError for a variable that would be ignored. A replayed run asks no server."""
    if settings.replay:
        return
    address = shell_model_url(settings.name, settings.model, settings.variables)
    if address and settings.base_url is None:
        raise UserError(
            f"{address.variable} is {address.url}, but this run asks the model at its vendor",
            f"Give the address with the run: --model-url {address.url} (base_url in a suite file). To ask the vendor, "
            f"unset {address.variable}, and set the vendor's key.",
        )
    proxy = next((name for name in PROXIES if os.environ.get(name)), None)
    is_direct = model_access(client, settings) is ModelAccess.DIRECT and settings.network is NetworkAccess.ALLOWED
    if proxy and is_direct and settings.isolation != "none":
        raise UserError(
            f"{proxy} is set, but {client.name} reaches its model without the gateway, and not through that proxy",
            "Use an API key and no --no-gateway, so that the gateway carries its calls through the proxy; or unset "
            f"{proxy} if this machine reaches the provider directly.",
        )


def shell_note(settings: AgentSettings) -> str | None:
    """Return a sentence about a variable of the shell that decides where the model is asked."""
    address = shell_model_url(settings.name, settings.model, settings.variables)
    if address is not None and address.url == settings.base_url:
        return f"the model is asked at {address.url}, as {address.variable} says"
    client = definitions.load(settings.name)
    unused = _first_address(client.keys)
    if unused and client.credentials and settings.base_url is None and not any(map(os.environ.get, client.keys)):
        return f"{unused.variable} is not used: {client.name} is logged in without a key, and asks its vendor"
    return None
