"""Topology of generated programs: edits that must not change it, and edits that must."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize

from hypothesis import given, settings
from hypothesis import strategies as st

from evopolicygym.analysis.edits.code_reader_child import joined_hash, tree_text

NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
NUMBERS = (
    st.integers(min_value=0)
    | st.floats(min_value=0, allow_nan=False, allow_infinity=False)
    | st.floats(min_value=0, max_value=1e9).map(lambda x: complex(0, x))
).map(repr)
SIGNED = st.tuples(st.sampled_from(["", "-", "+", "- -", "-+"]), NUMBERS).map("".join)
TEXTS = st.text(st.characters(codec="utf-8")).map(repr)
ATOMS = SIGNED | NAMES | TEXTS | st.sampled_from(["True", "None", "...", "b'1'", "f'{x:>{w}} 1'"])


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return (
        pair.map(lambda two: f"({two[0]}) + ({two[1]})")
        | pair.map(lambda two: f"({two[0]}) < ({two[1]})")
        | pair.map(lambda two: f"[{two[0]}, {two[1]}]")
        | pair.map(lambda two: f"{{{two[0]}: {two[1]}}}")
        | pair.map(lambda two: f"({two[0]}) if ({two[1]}) else 0")
        | inner.map(lambda one: f"f({one}, *a, k={one})")
        | inner.map(lambda one: f"[i for i in ({one}) if i]")
        | inner.map(lambda one: f"not ({one})")
    )


EXPRESSIONS = st.recursive(ATOMS, _more, max_leaves=8)
STATEMENTS = st.tuples(NAMES, EXPRESSIONS).map(lambda two: f"{two[0]} = {two[1]}")
PROGRAMS = st.lists(STATEMENTS, min_size=1, max_size=5).map(
    lambda lines: "class Policy:\n    def act(self, obs):\n" + "".join(f"        {line}\n" for line in lines)
)


def tree(source: str) -> str:
    return tree_text(ast.parse(source), numbers=True)


def topology(source: str) -> str:
    return tree_text(ast.parse(source), numbers=False)


@given(PROGRAMS)
def test_comments_and_formatting_do_not_change_the_tree(source):
    tidy = ast.unparse(ast.parse(source))
    noisy = "# a comment\n" + re.sub(r"(?m)^((?:    )*)(.*)$", r"\1\1\2  # another\n", source.rstrip("\n")) + "\n"
    documented = source.replace("act(self, obs):\n", 'act(self, obs):\n        """What it does."""\n')
    assert tree(source) == tree(tidy) == tree(noisy) == tree(documented)


@given(PROGRAMS, st.data())
def test_numbers_change_the_tree_but_never_the_topology(source, data):
    changed = with_other_number(source, data)
    assert topology(changed) == topology(source)
    assert (tree(changed) == tree(source)) == (ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)))


def with_other_number(source: str, data: st.DataObject) -> str:
    """Return a source in which one numeric literal outside of strings is replaced."""
    found = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NUMBER]
    if not found:
        return source
    token = data.draw(st.sampled_from(found))
    lines = source.splitlines(keepends=True)
    row, start, end = token.start[0] - 1, token.start[1], token.end[1]
    lines[row] = f"{lines[row][:start]} {data.draw(SIGNED)} {lines[row][end:]}"
    return "".join(lines)


@given(PROGRAMS, NAMES)
def test_a_rename_changes_the_topology(source, name):
    renamed = source.replace("def act", f"def act_{name}")
    assert topology(renamed) != topology(source)


@given(STATEMENTS, STATEMENTS)
def test_different_programs_have_different_trees(one, other):
    """The text loses nothing: no two different trees are written alike."""
    assert (tree(one) == tree(other)) == (ast.dump(ast.parse(one)) == ast.dump(ast.parse(other)))


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_the_joined_hash_depends_on_where_files_end(one, other):
    assert (joined_hash(one) == joined_hash(other)) == (one == other)


@settings(max_examples=20)
@given(st.integers(0, 15))
def test_an_integer_may_have_more_digits_than_python_prints(digit):
    source = f"MAZE = 0x{digit:x}{'f' * 6000}"
    assert topology(source) == topology("MAZE = 1")
    assert tree(source) != tree("MAZE = 0x" + "f" * 6000 + "e")


def test_a_deep_tree_is_no_deeper_than_its_parser_allows():
    source = "x = a" + " + a" * 900
    assert topology(source) != topology(source + " + a")
