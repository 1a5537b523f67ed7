"""Prices of tokens, and costs that are unknown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evopolicygym.agents.prices import TurnCost, cost, load_prices, price_of
from evopolicygym.agents.usage import Usage
from evopolicygym.errors import UserError

OWN = '[models."my-model"]\ninput = 2\noutput = 4\nas_of = "2026-01"\nsource = "me"\n'


def test_the_cost_that_the_client_reports_comes_first():
    assert cost(Usage(1, output=1, cost_usd=0.25), "gpt-5") == TurnCost(0.25, "client")


def test_an_estimate_quotes_its_price():
    estimated = cost(Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000), "anthropic/claude-opus-4-7-20260101")
    assert estimated.usd == pytest.approx(5 + 0.5 + 6.25 + 25) and estimated.source == "prices"
    assert (
        estimated.price
        and estimated.price["as_of"].startswith("genai-prices ")
        and estimated.price["source"].startswith("https://")
    )


def test_unknown_models_have_no_price():
    unknown = TurnCost(None, "unknown")
    assert cost(None, "gpt-5") == unknown
    assert cost(Usage(1, output=1), "nobody-knows-it") == unknown
    assert cost(Usage(1, output=1), None) == unknown
    assert cost(Usage(1), "gpt-5") == unknown  # output is not known
    assert cost(Usage(1, cache_write=1, output=1), "gpt-5") == unknown  # nor what a cache write would cost


def test_a_price_file_of_the_user(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(OWN)
    assert cost(Usage(500_000, output=250_000), "my-model", load_prices(file)).usd == 2.0
    assert price_of("gpt-5", load_prices(file)) is not None
    file.write_text(OWN.replace("output", "outptu"))
    with pytest.raises(UserError, match="did you mean output"):
        load_prices(file)


def test_the_models_of_the_documentation_have_a_price():
    for model in ("gpt-5.5", "openai/gpt-5.5", "claude-opus-4-7", "claude-opus-4-7-20260101", "gemini-2.5-pro"):
        estimated = cost(Usage(1_000_000, output=1_000_000, cache_read=0), model)
        assert estimated.usd and estimated.price and estimated.price["source"].startswith("https://"), model


@pytest.mark.parametrize("model", ["claude-scripted", "my-gpt-5", "gpt-5.5-mini", "claude-opus-99"])
def test_a_name_that_resembles_a_known_model_has_no_price(model):
    assert price_of(model, {}) is None


def test_where_long_prompts_cost_more_the_price_of_short_ones_counts():
    price = price_of("gpt-5.5", {})
    assert price and (price.input, price.cache_read, price.output) == (5.0, 0.5, 30.0)


def test_prices_need_no_network():
    """A process that cannot connect anywhere prices a model all the same."""
    code = (
        "import socket; socket.socket.connect = socket.getaddrinfo = None\n"
        "from evopolicygym.agents.prices import price_of\n"
        "assert price_of('claude-opus-5', {}).output == 25.0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("model", ["DeepSeek-V4-Pro", "deepseek/deepseek-v4-pro", "MiniMax-M3", "minimax/minimax-m3"])
def test_models_of_the_paper_have_prices_of_their_maker(model):
    price = price_of(model, {})
    assert 0.0 < price.cache_read < price.input < price.output
    assert price.source.startswith(("https://api-docs.deepseek.com/", "https://platform.minimax.io/"))


@pytest.mark.parametrize("dollars", ["nan", "inf", "-1.0", "1e300"])
def test_a_price_that_no_sum_can_hold_is_refused(tmp_path, dollars):
    """A negative price would lift the limit of dollars."""
    file = tmp_path / "prices.toml"
    text = '[models.my-model]\ninput = {}\noutput = 4.0\nas_of = "today"\nsource = "me"\n'
    file.write_text(text.format("0.0"))
    assert load_prices(file)["my-model"].input == 0.0  # control
    file.write_text(text.format(dollars))
    with pytest.raises(UserError, match=r"models\.my-model\.input"):
        load_prices(file)
