"""The counting rules, one by one."""

from __future__ import annotations

import ast
import textwrap

import pytest

from evopolicygym.analysis.edits.code_reader_child import Structure, measure, total


def structure(source: str) -> Structure:
    return measure(ast.parse(textwrap.dedent(source)))


@pytest.mark.parametrize(
    ("source", "functions"),
    [
        ("def f(): pass", 1),
        ("async def f(): pass", 1),
        ("class A:\n def f(self):\n  def g(): pass", 2),
        ("f = lambda: 0", 0),
    ],
)
def test_functions(source, functions):
    assert structure(source).functions == functions


@pytest.mark.parametrize(
    ("source", "branches"),
    [
        ("if a: pass\nelse: pass", 1),
        ("if a: pass\nelif b: pass\nelif c: pass\nelse: pass", 3),
        ("x = 1 if a else 2 if b else 3", 2),
        ("match a:\n case 1: pass\n case _: pass", 2),
        ("try: pass\nexcept A: pass\nexcept B: pass\nelse: pass\nfinally: pass", 2),
        ("x = a and b or c\nassert x\nwhile a: pass\n[i for i in a if i]", 0),
    ],
)
def test_branches(source, branches):
    assert structure(source).branches == branches


@pytest.mark.parametrize(
    ("source", "loops"),
    [
        ("for i in a: pass\nelse: pass", 1),
        ("while a: pass", 1),
        ("async def f():\n async for i in a: pass", 1),
        ("x = [i for a in b for i in a]\ny = {i for i in x}\nz = {i: i for i in x}\nw = sum(i for i in x)", 5),
        ("map(f, a)", 0),
    ],
)
def test_loops(source, loops):
    assert structure(source).loops == loops


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("pass", 0),
        ("if a: pass", 1),
        ("if a: pass\nelif b: pass\nelif c: pass", 1),
        ("if a: pass\nelif b:\n for i in c: pass", 2),
        ("if a: pass\nelse:\n x = 1\n if b: pass", 2),
        ("for i in a:\n while b:\n  try: pass\n  except A:\n   if c: pass", 4),
        ("match a:\n case 1:\n  if b: pass", 2),
        ("with a:\n if b: pass", 1),
        ("x = [i if i else 0 for i in a if i]", 0),
        ("if a:\n def g():\n  if b: pass", 1),
        ("if a:\n class B:\n  def g(self):\n   if b:\n    if c: pass", 2),
    ],
)
def test_nesting_depth_of_a_function(body, depth):
    assert structure("def f():\n" + textwrap.indent(body, " ")).depth == depth


def test_depth_is_of_functions():
    assert structure("if a:\n if b:\n  for i in c: pass").depth == 0


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("self.a = 1\nself.a = 2", 1),
        ("self.a, (self.b, *self.c) = 1, (2, 3)", 3),
        ("self.a += 1\nself.b: int = 0", 2),
        ("for self.a in b: pass\nwith c as self.d: pass", 2),
        ("self.a[0] = 1\nself.b.c = 1\nother.d = 1\nx = self.e\ndel self.f", 0),
        ("def g():\n self.a = 1", 1),
    ],
)
def test_attributes_that_a_class_keeps_are_counted(body, state):
    assert structure("class A:\n def f(self, other):\n" + textwrap.indent(body, "  ")).state == state


def test_state_is_counted_by_class():
    one = "class A:\n def f(self):\n  self.x = 1\n"
    assert structure(one + one.replace("A", "B")).state == 2
    assert structure("def f(self):\n self.x = 1").state == 0


def test_files_add_up_but_depth_is_the_deepest():
    shallow, deep = Structure(1, 2, 3, 1, 4), Structure(1, 1, 1, 5, 0)
    assert total([shallow, deep]) == Structure(2, 3, 4, 5, 4)
    assert total([]) == Structure()
