"""TOML of other people: parsed in bounded time, never deeper than a program can follow, and no number beyond bounds."""

from __future__ import annotations

import math
import time

import pytest

from evopolicygym.agents.prices import load_prices
from evopolicygym.config import MAX_DEPTH, parse_toml
from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from evopolicygym.suites.file import Suite, plan

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


HUGE = ("0x" + "F" * 5000, "-9" + "9" * 30, "0o" + "7" * 3000, "0b" + "1" * 64, str(2**63), str(-(2**63) - 1))


@pytest.mark.parametrize("number", HUGE)
def test_integers_beyond_64_bits_are_refused_by_their_key(number):
    """Hexadecimal ones have no limit of digits, and Python raises ValueError when it writes those."""
    for text, key in (("budget = {}", "budget"), ("a.b = [1, {{ c = {} }}]", "a.b.c"), ("[[a]]\nb = [[{}]]", "a.b")):
        with pytest.raises(ValueError, match=f"^{key} is out of range: whole numbers are between") as caught:
            parse_toml(text.format(number))
        assert number[3:] not in str(caught.value)
        assert parse_toml(text.format(2**63 - 1)) and parse_toml(text.format(-(2**63))), "control"


def test_a_table_may_have_infinite_numbers_where_that_is_said():
    """`healthy_z_range = [0.7, inf]` is the default of an environment of Gymnasium."""
    assert (
        parse_toml("[env_options]\nrange = [0.7, inf]", infinite="env_options")["env_options"]["range"][1] == math.inf
    )
    for text in ("[env_options]\nrange = [nan]", "hours = inf", "[env_options_2]\nx = inf"):
        with pytest.raises(ValueError, match="is no finite number"):
            parse_toml(text, infinite="env_options")


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e400"])
def test_numbers_that_are_not_finite_are_refused_by_their_key(number):
    with pytest.raises(ValueError, match=r"^agent\.hours is no finite number"):
        parse_toml(f"agent.hours = {number}")
    assert parse_toml("agent.hours = 1e308"), "control"


def test_a_key_in_a_message_is_short_and_printable():
    with pytest.raises(ValueError) as caught:
        parse_toml('"' + "\\u001b" * 10_000 + '" = 0xFFFFFFFFFFFFFFFFFF')
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000


NUMBERS = ("budget", "jobs", "max_candidates", "unknown", "agent.turns", "agent.hours", "agent.seed", "agent.options.x")


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("number", ["0x" + "F" * 5000, "nan"])
def test_settings_with_such_numbers_are_refused_in_words(tmp_path, key, number):
    """Some were a traceback at once, some in the middle of the run: no float can be compared with them."""
    agent = 'agent.name = "starter"\n'
    (tmp_path / "config.toml").write_text(f'task = "core16/acrobot"\n{agent}{key} = {number}\n')
    with pytest.raises(UserError, match=f"{key} is (out of range|no finite number)"):
        RunSettings.read(tmp_path)
    (tmp_path / "config.toml").write_text(f'task = "core16/acrobot"\n{agent}agent.turns = 0x10\n')
    assert RunSettings.read(tmp_path).agent.turns == 16, "control"


@pytest.mark.parametrize("value", ["9" * 400, 10**400, 10**5000, 2**63], ids=("text", "400", "5000", "2**63"))
def test_whole_numbers_that_come_as_text_or_from_python_have_the_same_bounds(value):
    """A text is read as a number, too. A float is compared with the limit of turns in the middle of a run."""
    with pytest.raises(UserError, match=r"agent\.turns: out of range: whole numbers are between"):
        RunSettings.make(task="core16/acrobot", agent={"name": "starter", "turns": value})
    for same in ("16", 16):
        assert RunSettings.make(task="core16/acrobot", agent={"name": "starter", "turns": same}).agent.turns == 16


@pytest.mark.parametrize("value", ["inf", "nan", float("inf")])
def test_limits_are_finite(value):
    """A run without an end of hours was played, and its record could not be written."""
    with pytest.raises(UserError, match=r"agent\.hours: Input should be a finite number"):
        RunSettings.make(task="core16/acrobot", agent={"name": "starter", "hours": value})


def test_suites_with_such_numbers_are_refused_in_words(tmp_path):
    suite = tmp_path / "suite.toml"
    for number, message in (("0x" + "F" * 5000, "suite.toml is not valid: seed is out of range"), ("0x10", None)):
        suite.write_text(f'tasks = ["core16/acrobot"]\nseed = {number}\nagents = {{starter = {{}}}}\n')
        if message is None:
            assert Suite.read(suite).seed == 16, "control"
        else:
            with pytest.raises(UserError, match=message):
                Suite.read(suite)
    for override in ("seed=0x" + "F" * 5000, f"seed={10**20}"):
        with pytest.raises(UserError, match="--set seed: value is out of range"):
            Suite.read(suite, [override])
    assert Suite.read(suite, ["seed=3"]).seed == 3, "control"
    with pytest.raises(UserError, match="seed: out of range"):
        plan(Suite.read(suite, [f"seed={2**63 - 1}", "repeats=2"]))
