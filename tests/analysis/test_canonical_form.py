"""Pairs of programs that try to mislead the canonical form: what looks unused, renamed or reordered, and matters.

`same`: the programs are equal. `numbers`: they differ by constants alone. `other`: they differ. Where the form cannot
know, it must say `other`.
"""
# ruff: noqa: E501

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_folders import write_checkpoint

from evopolicygym.analysis.edits.bundle import read_bundle
from evopolicygym.analysis.edits.canonical import canonical_form
from evopolicygym.analysis.edits.versions_child import read_version

PLAIN = """
class Policy:
    def __init__(self, o, a, m):
        self.k = 1
    def reset(self, i):
        pass
    def act(self, obs):
        return BODY
"""


def pol(body, head="", extra=""):
    return head + PLAIN.replace("BODY", body) + extra


PAIRS: list[tuple[str, str, str, str]] = []


def pair(name, before, after, expected):
    PAIRS.append((name, before, after, expected))


pair(
    "swap two params uses",
    pol("f(obs[0],obs[1])", "def f(x,y):\n    return x-y\n"),
    pol("f(obs[0],obs[1])", "def f(x,y):\n    return y-x\n"),
    "other",
)
pair(
    "swap params consistently",
    pol("f(obs[0],obs[1])", "def f(x,y):\n    return x-y\n"),
    pol("f(obs[0],obs[1])", "def f(y,x):\n    return y-x\n"),
    "same",
)
pair(
    "equal and different names in comprehensions",
    pol("f(obs)", "def f(o):\n    return [[x for x in o], [x for x in o], [x for x in o], [x for x in o]]\n"),
    pol("f(obs)", "def f(o):\n    return [[a for a in o], [b for b in o], [c for c in o], [d for d in o]]\n"),
    "same",
)
pair("shadow builtin", pol("max(obs)"), pol("max(obs)", "def max(x):\n    return x[0]\n"), "other")
pair(
    "shadow import by local",
    pol("g(obs)", "import math\ndef g(obs):\n    return math.sin(obs[0])\n"),
    pol(
        "g(obs)",
        "import math\nclass fake:\n    sin = staticmethod(abs)\ndef g(obs):\n    math = fake\n    return math.sin(obs[0])\n",
    ),
    "other",
)
pair(
    "global vs local",
    pol("g(obs)", "S = 0\ndef g(obs):\n    S = obs[0]\n    return h()\ndef h():\n    return S\n"),
    pol("g(obs)", "S = 0\ndef g(obs):\n    global S\n    S = obs[0]\n    return h()\ndef h():\n    return S\n"),
    "other",
)
pair(
    "global counter const change",
    pol("g(obs)", "S = 0\ndef g(obs):\n    global S\n    S += 1\n    return S\n"),
    pol("g(obs)", "S = 5\ndef g(obs):\n    global S\n    S += 1\n    return S\n"),
    "numbers",
)
pair(
    "nonlocal",
    pol(
        "g(obs)()",
        "def g(obs):\n    x = 0\n    def h():\n        x = 1\n        return x\n    h()\n    return lambda: x\n",
    ),
    pol(
        "g(obs)()",
        "def g(obs):\n    x = 0\n    def h():\n        nonlocal x\n        x = 1\n        return x\n    h()\n    return lambda: x\n",
    ),
    "other",
)
pair(
    "getattr string",
    pol(
        'getattr(self, "fast")(obs)',
        "",
        "    def fast(self, obs):\n        return 1\n    def slow(self, obs):\n        return 2\n",
    ),
    pol(
        'getattr(self, "slow")(obs)',
        "",
        "    def fast(self, obs):\n        return 1\n    def slow(self, obs):\n        return 2\n",
    ),
    "other",
)
pair(
    "getattr string swapped bodies",
    pol(
        'getattr(self, "fast")(obs)',
        "",
        "    def fast(self, obs):\n        return 1\n    def slow(self, obs):\n        return obs\n",
    ),
    pol(
        'getattr(self, "fast")(obs)',
        "",
        "    def slow(self, obs):\n        return 1\n    def fast(self, obs):\n        return obs\n",
    ),
    "other",
)
pair(
    "getattr computed",
    pol(
        'getattr(self, "do_" + str(int(obs[0])))(obs)',
        "",
        "    def do_0(self, obs):\n        return 1\n    def do_1(self, obs):\n        return obs\n",
    ),
    pol(
        'getattr(self, "do_" + str(int(obs[0])))(obs)',
        "",
        "    def do_1(self, obs):\n        return 1\n    def do_0(self, obs):\n        return obs\n",
    ),
    "other",
)
pair(
    "dict dispatch by name string",
    pol('TABLE["a"](obs)', "def f(o):\n    return 1\ndef g(o):\n    return o\nTABLE = {'a': f, 'b': g}\n"),
    pol('TABLE["a"](obs)', "def f(o):\n    return 1\ndef g(o):\n    return o\nTABLE = {'a': g, 'b': f}\n"),
    "other",
)
pair(
    "reordered effects",
    pol("A[0]", "A = []\nA.append(1)\nA.append(2)\n"),
    pol("A[0]", "A = []\nA.append(2)\nA.append(1)\n"),
    "numbers",
)
pair(
    "reordered effects calls",
    pol("A[0]", "A = []\nA.append(len)\nA.append(max)\n"),
    pol("A[0]", "A = []\nA.append(max)\nA.append(len)\n"),
    "other",
)
pair(
    "computed before and after effect",
    pol("B[0]", "A = [3]\nB = list(A)\nA.append(1)\n"),
    pol("B[0]", "A = [3]\nA.append(1)\nB = list(A)\n"),
    "other",
)
pair(
    "mutation in function call at import",
    pol("B", "A = [3]\ndef grow():\n    A.append(4)\nB = len(A)\ngrow()\n"),
    pol("B", "A = [3]\ndef grow():\n    A.append(4)\ngrow()\nB = len(A)\n"),
    "other",
)
pair(
    "default arg value",
    pol("f(obs)", "def f(o, k=2):\n    return o[0]*k\n"),
    pol("f(obs)", "def f(o, k=3):\n    return o[0]*k\n"),
    "numbers",
)
pair(
    "default arg evaluated at def",
    pol("f(obs)", "K = [1]\ndef f(o, k=len(K)):\n    return k\nK.append(2)\n"),
    pol("f(obs)", "K = [1]\nK.append(2)\ndef f(o, k=len(K)):\n    return k\n"),
    "other",
)
pair(
    "mutable default",
    pol(
        "f(obs)",
        "def f(o, seen=None):\n    seen = [] if seen is None else seen\n    seen.append(1)\n    return len(seen)\n",
    ),
    pol(
        "f(obs)",
        "def f(o, seen=[]):\n    seen = [] if seen is None else seen\n    seen.append(1)\n    return len(seen)\n",
    ),
    "other",
)
pair(
    "print with side effect",
    pol("1"),
    pol("1").replace("        return 1", "        print(self.bump())\n        return self.k")
    + "    def bump(self):\n        self.k += 1\n        return self.k\n",
    "other",
)
pair(
    "unused local with side effect",
    pol("self.k", "", "    def bump(self):\n        self.k += 1\n"),
    pol("self.k", "", "    def bump(self):\n        self.k += 1\n").replace(
        "        return self.k", "        x = self.bump()\n        return self.k"
    ),
    "other",
)
pair(
    "unused random draw",
    pol("np.random.rand()", "import numpy as np\n"),
    pol("np.random.rand()", "import numpy as np\n").replace(
        "        return np", "        x = np.random.rand()\n        return np"
    ),
    "other",
)
pair(
    "unused rng draw via generator",
    pol("R.normal()", "import numpy as np\nR = np.random.default_rng(0)\n"),
    pol("R.normal()", "import numpy as np\nR = np.random.default_rng(0)\n").replace(
        "        return R", "        x = R.normal()\n        return R"
    ),
    "other",
)
pair(
    "property write",
    pol(
        "self.x",
        "",
        "    @property\n    def x(self):\n        return self.k\n    @x.setter\n    def x(self, v):\n        self.k = v\n",
    ),
    pol(
        "self.x",
        "",
        "    @property\n    def x(self):\n        return self.k\n    @x.setter\n    def x(self, v):\n        self.k = v\n",
    ).replace("        return self.x", "        self.x = 5\n        return self.x"),
    "other",
)
pair(
    "setter only property unread",
    pol(
        "self.k",
        "",
        "    @property\n    def x(self):\n        return self.k\n    @x.setter\n    def x(self, v):\n        self.k = v\n",
    ),
    pol(
        "self.k",
        "",
        "    @property\n    def x(self):\n        return self.k\n    @x.setter\n    def x(self, v):\n        self.k = v\n",
    ).replace("        return self.k\n    @property", "        self.x = 5\n        return self.k\n    @property", 1),
    "other",
)
pair(
    "decorator registers",
    pol("REG[0](obs)", "REG = []\ndef reg(f):\n    REG.append(f)\n    return f\n@reg\ndef a(o):\n    return 1\n"),
    pol(
        "REG[0](obs)",
        "REG = []\ndef reg(f):\n    REG.append(f)\n    return f\n@reg\ndef b(o):\n    return o\n@reg\ndef a(o):\n    return 1\n",
    ),
    "other",
)
pair(
    "keyword swap",
    pol("f(x=obs[0], y=1)", "def f(x, y):\n    return x-y\n"),
    pol("f(y=obs[0], x=1)", "def f(x, y):\n    return x-y\n"),
    "other",
)
pair(
    "keyword param renamed only",
    pol("f(x=obs[0])", "def f(x, y=2):\n    return x-y\n"),
    pol("f(y=obs[0])", "def f(x=2, y=2):\n    return x-y\n"),
    "other",
)
pair(
    "kwargs spread",
    pol("f(**{'x': obs[0], 'y': 1})", "def f(x, y):\n    return x-y\n"),
    pol("f(**{'x': obs[0], 'y': 1})", "def f(y, x):\n    return y-x\n"),
    "other",
)
pair(
    "kwargs spread swapped body",
    pol("f(**{'x': obs[0], 'y': 1})", "def f(x, y):\n    return x-y\n"),
    pol("f(**{'x': obs[0], 'y': 1})", "def f(x, y):\n    return y-x\n"),
    "other",
)
pair("class attr vs instance", pol("self.g", "", "    g = 3\n"), pol("self.g", "", "    g = 4\n"), "numbers")
pair(
    "two classes same method",
    pol(
        "A().m(obs)",
        "class A:\n    def m(self, o):\n        return 1\nclass B:\n    def m(self, o):\n        return o\n",
    ),
    pol(
        "B().m(obs)",
        "class A:\n    def m(self, o):\n        return 1\nclass B:\n    def m(self, o):\n        return o\n",
    ),
    "other",
)
pair(
    "inheritance override",
    pol("A().m(obs)", "class Z:\n    def m(self, o):\n        return o\nclass A(Z):\n    pass\n"),
    pol(
        "A().m(obs)",
        "class Z:\n    def m(self, o):\n        return o\nclass A(Z):\n    def m(self, o):\n        return 1\n",
    ),
    "other",
)
pair(
    "Policy subclass order mro",
    pol("0")
    .replace(
        "class Policy:",
        "class A:\n    def act(self, o):\n        return 1\nclass B:\n    def act(self, o):\n        return o\nclass Base(A, B):\n    pass\nclass Policy(Base):",
    )
    .replace("    def act(self, obs):\n        return 0\n", ""),
    pol("0")
    .replace(
        "class Policy:",
        "class A:\n    def act(self, o):\n        return 1\nclass B:\n    def act(self, o):\n        return o\nclass Base(B, A):\n    pass\nclass Policy(Base):",
    )
    .replace("    def act(self, obs):\n        return 0\n", ""),
    "other",
)
pair("monkeypatch", pol("0"), pol("0", "", "def other(self, obs):\n    return 1\nPolicy.act = other\n"), "other")
pair("redefined class", pol("0"), pol("0") + pol("obs"), "other")
pair(
    "conditional def",
    pol(
        "f(obs)",
        "import sys\nif sys.maxsize > 5:\n    def f(o):\n        return 1\nelse:\n    def f(o):\n        return o\n",
    ),
    pol(
        "f(obs)",
        "import sys\nif sys.maxsize > 5:\n    def f(o):\n        return o\nelse:\n    def f(o):\n        return 1\n",
    ),
    "other",
)
pair(
    "try import fallback",
    pol("f(obs)", "try:\n    from scipy.special import expit as f\nexcept ImportError:\n    f = abs\n"),
    pol("f(obs)", "try:\n    from scipy.special import erf as f\nexcept ImportError:\n    f = abs\n"),
    "other",
)
pair(
    "yield after return",
    pol("list(g())", "def g():\n    return\n"),
    pol("list(g())", "def g():\n    return\n    yield\n"),
    "other",
)
pair("comparison with nan semantic not", pol("1 if not (obs[0] > 2) else 0"), pol("1 if obs[0] <= 2 else 0"), "other")
pair("swap compare", pol("1 if obs[0] > 2 else 0"), pol("1 if 2 < obs[0] else 0"), "same")
pair(
    "chain eval twice",
    pol("1 if 0 < self.n() < 2 else 0", "", "    def n(self):\n        self.k += 1\n        return self.k\n"),
    pol(
        "1 if 0 < self.n() and self.n() < 2 else 0",
        "",
        "    def n(self):\n        self.k += 1\n        return self.k\n",
    ),
    "other",
)
pair("walrus in comp", pol("[y := x for x in obs][0]"), pol("[x for x in obs][0]"), "other")
pair("del attr", pol("1"), pol("1").replace("        return 1", "        del self.k\n        return 1"), "other")
pair(
    "literal swap same attr",
    pol("self.k").replace("self.k = 1", "self.k = 1\n        self.k = 2"),
    pol("self.k").replace("self.k = 1", "self.k = 2\n        self.k = 1"),
    "numbers",
)
pair(
    "settings swapped names",
    pol("self.a-self.b").replace("self.k = 1", "self.a = 1\n        self.b = 2"),
    pol("self.a-self.b").replace("self.k = 1", "self.b = 2\n        self.a = 1"),
    "same",
)
pair(
    "settings values exchanged",
    pol("self.a-self.b").replace("self.k = 1", "self.a = 1\n        self.b = 2"),
    pol("self.a-self.b").replace("self.k = 1", "self.a = 2\n        self.b = 1"),
    "numbers",
)
pair("integer vs float division", pol("obs[0]//2"), pol("obs[0]/2"), "other")
pair(
    "attr read by json-like vars",
    pol("sum(vars(self).values())"),
    pol("sum(vars(self).values())").replace("self.k = 1", "self.k = 1\n        self.zz = 4"),
    "other",
)
pair(
    "slots or copy dict",
    pol("len(self.__dict__)"),
    pol("len(self.__dict__)").replace("self.k = 1", "self.k = 1\n        self.zz = 4"),
    "other",
)
pair("assert", pol("1"), pol("1").replace("        return 1", "        assert obs[0] > 0\n        return 1"), "other")
pair(
    "augmented alias",
    pol("f(obs)", "def f(o):\n    x = o\n    x = x + 1\n    return o[0]\n"),
    pol("f(obs)", "def f(o):\n    x = o\n    x += 1\n    return o[0]\n"),
    "other",
)
pair(
    "unread augmented on alias",
    pol("f(obs)", "def f(o):\n    x = o\n    return o[0]\n"),
    pol("f(obs)", "def f(o):\n    x = o\n    x += 1\n    return o[0]\n"),
    "other",
)
pair(
    "unread self aug alias",
    pol("self.g(obs)", "", "    def g(self, o):\n        return o[0]\n"),
    pol("self.g(obs)", "", "    def g(self, o):\n        self.w = o\n        self.w += 1\n        return o[0]\n"),
    "other",
)
pair(
    "except var",
    pol("f(obs)", "def f(o):\n    try:\n        return o[9]\n    except IndexError:\n        return 0\n"),
    pol("f(obs)", "def f(o):\n    try:\n        return o[9]\n    except Exception:\n        return 0\n"),
    "other",
)
pair(
    "unused pure that may raise in try",
    pol(
        "f(obs)", "def f(o):\n    try:\n        x = o[9]\n        return 1\n    except IndexError:\n        return 0\n"
    ),
    pol("f(obs)", "def f(o):\n    try:\n        return 1\n    except IndexError:\n        return 0\n"),
    "other",
)
pair(
    "logger name is own object",
    pol("self.k", "class L:\n    n = 0\n    def info(self, x):\n        L.n += 1\nlog = L()\n").replace(
        "return self.k", "return L.n"
    ),
    pol("self.k", "class L:\n    n = 0\n    def info(self, x):\n        L.n += 1\nlog = L()\n").replace(
        "return self.k", "log.info(1)\n        return L.n"
    ),
    "other",
)
pair(
    "print to file",
    pol("open('/tmp/x').read()"),
    pol("open('/tmp/x').read()").replace(
        "        return open", "        print(1, file=open('/tmp/x','w'))\n        return open"
    ),
    "other",
)
pair("import side effect local", pol("1"), pol("1", "import random\nrandom.seed(4)\n"), "other")
pair("bool structural string key", pol("obs['a']"), pol("obs['b']"), "other")
pair(
    "module constant rebound through attribute",
    pol("f()", "import policy\nK = 1\ndef f():\n    policy.K = 2\n    return K\n"),
    pol("f()", "import policy\nK = 1\ndef f():\n    policy.Q = 2\n    return K\n"),
    "other",
)
pair(
    "match attr",
    pol("f(obs)", "def f(o):\n    match o:\n        case [a, b]:\n            return a\n    return 0\n"),
    pol("f(obs)", "def f(o):\n    match o:\n        case [a, b]:\n            return b\n    return 0\n"),
    "other",
)
pair(
    "lambda late binding",
    pol("F[0](1)", "F = [lambda x, i=i: i for i in range(3)]\n"),
    pol("F[0](1)", "F = [lambda x: i for i in range(3)]\n"),
    "other",
)
pair(
    "star args", pol("f(*obs)", "def f(a, *r):\n    return a\n"), pol("f(*obs)", "def f(*r):\n    return r\n"), "other"
)
pair(
    "unused but called via map string eval",
    pol("eval('h(1)')", "def h(x):\n    return x\n"),
    pol("eval('h(1)')", "def h(x):\n    return -x\n"),
    "other",
)
pair(
    "dunder del order",
    pol("self.k").replace("def reset(self, i):\n        pass", "def reset(self, i):\n        self.k = 2"),
    pol("self.k"),
    "other",
)
pair(
    "class body name in method default",
    pol("self.g()", "", "    K = 3\n    def g(self, k=K):\n        return k\n"),
    pol("self.g()", "", "    K = 4\n    def g(self, k=K):\n        return k\n"),
    "numbers",
)
pair(
    "name of one comprehension of many",
    pol("f(obs)", "def f(o):\n" + "    o = [i for i in o]\n" * 40 + "    return o\n"),
    pol("f(obs)", "def f(o):\n" + "    o = [i for i in o]\n" * 39 + "    o = [j for j in o]\n    return o\n"),
    "same",
)


@pytest.mark.parametrize(("name", "before", "after", "expected"), PAIRS, ids=[name for name, *_ in PAIRS])
def test_a_misleading_pair(name, before, after, expected, tmp_path):
    forms = [
        canonical_form(read_bundle(tmp_path / write_checkpoint(tmp_path, {"policy.py": text})))
        for text in (before, after)
    ]
    programs, shapes = {form.program for form in forms}, {form.shape for form in forms}
    found = "same" if len(programs) == 1 else "numbers" if len(shapes) == 1 else "other"
    assert found == expected


def test_a_tree_that_is_too_deep_is_compared_as_it_is(tmp_path):
    deep = "def unused():\n    return " + "+".join(["x"] * 600) + "\n"
    texts = (pol("1", deep), pol("1", deep) + "# a comment\n", pol("1", deep.replace("unused", "renamed")))
    facts = [read_version(tmp_path / write_checkpoint(tmp_path, {"policy.py": text})) for text in texts]
    assert facts[0]["program"] == facts[1]["program"] != facts[2]["program"]


def test_facts_of_versions_do_not_depend_on_the_order_of_sets():
    checkpoints = sorted(Path(__file__).parents[2].glob("examples/runs/*__climber__s0/checkpoints/*"))
    code = "import sys; from evopolicygym.analysis.edits.versions_child import main; main('', *sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, checkpoints)]
    answers = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, check=True).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    assert answers[0].count(b"\n") == len(checkpoints) > 10
