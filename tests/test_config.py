"""TOML of other people: parsed in bounded time, and never deeper than a program can follow."""

from __future__ import annotations

import time

import pytest

from evopolicygym.agents.prices import load_prices
from evopolicygym.config import MAX_DEPTH, parse_toml
from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings

PARTS = ("a", "a-1", '"a"', '"\\""', "'\"'", '""', "' '", "a ", " a")


@pytest.mark.parametrize("part", PARTS)
def test_a_key_of_very_many_parts_is_refused_at_once(part):
    """The time to parse it grew with the square of their number: a file of a megabyte took an hour."""
    values = parse_toml(".".join([part] * MAX_DEPTH) + " = 1")
    for _ in range(MAX_DEPTH):
        (values,) = values.values()
    assert values == 1, "control"
    began = time.process_time()
    for line in ("{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}"):
        with pytest.raises(ValueError, match="nested too deeply: a key"):
            parse_toml(line.format(".".join([part] * 50_000)))
    assert time.process_time() - began < 2.0


LONG = ("a" * 500_000, "a." * 60 + "," + "a. a " * 100_000, "'a" * 200_000, "a    " * 100_000)


@pytest.mark.parametrize("text", LONG)
def test_long_texts_are_no_keys(text):
    began = time.process_time()
    assert parse_toml(f'x = "{text}"') == {"x": text}
    assert time.process_time() - began < 2.0


def test_escaped_quotes_of_a_long_string_are_no_keys():
    quotes = 100_000
    began = time.process_time()
    assert parse_toml('x = "' + '\\"' * quotes + '"') == {"x": '"' * quotes}
    assert time.process_time() - began < 2.0


def test_long_parts_of_a_key_count_too():
    """Long parts were not counted: a key of 97 kB that had some of them took nine seconds and 2 GB."""
    long, few = '"' + "a" * 65 + '"', ".".join("a" * (MAX_DEPTH - 1))
    for key in ([long] * 15_000, [few, long] * 5_000, ["'" + long[1:-1] + "'", few] * 5_000):
        began = time.process_time()
        with pytest.raises(ValueError, match="nested too deeply: a key"):
            parse_toml(".".join(key) + " = 1")
        assert time.process_time() - began < 2.0


@pytest.mark.parametrize("unit", ['\\"', '"', '"\\', "'\"", "'", '"."', "a.'", '."', '"a" .'])
def test_no_pattern_of_quotes_is_searched_in_the_square_of_its_length(unit):
    began = time.process_time()
    for start in ("", "x = '", 'x = "'):
        with pytest.raises(ValueError):
            parse_toml(start + unit * (1_000_000 // len(unit)))
    assert time.process_time() - began < 20.0


def test_what_is_nested_by_other_means_is_refused_too():
    assert parse_toml("x = " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    for text in ("[" * MAX_DEPTH + "]" * MAX_DEPTH, "[" * 100_000, "{a.a.a.a.a.a.a.a = " * 100 + "1" + "}" * 100):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_toml(f"x = {text}")


def test_deep_settings_are_refused_in_words(tmp_path):
    """A value was too deep to be shown in the message about it."""
    for name, deep in (("fine", "a"), ("deep", ".".join("a" * 3000))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.toml").write_text(f'task = "core16/acrobot"\nname.{deep} = 1\n')
        with pytest.raises(UserError, match="valid string" if name == "fine" else "nested too deeply"):
            RunSettings.read(folder)
    (tmp_path / "prices.toml").write_text(f"models.{'.'.join('a' * 3000)} = 1\n")
    with pytest.raises(UserError, match="nested too deeply"):
        load_prices(tmp_path / "prices.toml")
