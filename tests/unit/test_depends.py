"""Whose a name is decides what depends: no name is missed for its scope, and none is mixed up."""

from __future__ import annotations

import textwrap

import pytest

from planguard.capture.names.depends import Program
from planguard.capture.names.depends import tests_of as read_tests

DEPENDS = {
    "global past outer": (
        "x > 1",
        {
            "main": """
            def outer():
                x = 1
                def inner(v):
                    global x
                    x = v
                inner(len(BATCH))
            def other():
                if x > 1: go()
            def step(batch):
                global BATCH
                BATCH = batch
                outer()
        """,
        },
    ),
    "class attr in function": (
        "self.limit > 2",
        {
            "main": """
            def step(batch):
                class Job:
                    limit = len(batch)
                    def run(self):
                        if self.limit > 2: go()
                Job().run()
        """,
        },
    ),
    "default": (
        "range(n)",
        {
            "main": """
            def step(batch):
                def run(n=len(batch)):
                    for _ in range(n): go()
                run()
        """,
        },
    ),
    "lambda default": (
        "n > 2",
        {
            "main": """
            def step(batch):
                n = len(batch)
                f = lambda n=n: go() if n > 2 else None
                f()
        """,
        },
    ),
    "kw default same name": (
        "n > 2",
        {
            "main": """
            def step(batch):
                n = len(batch)
                def f(*, n=n):
                    if n > 2: go()
                f()
        """,
        },
    ),
    "callback": (
        "ask() > 2",
        {
            "main": """
            def step(batch):
                def read():
                    return len(batch)
                act(read)
            def act(ask):
                if ask() > 2: go()
        """,
        },
    ),
    "table of functions": (
        "TABLE['a']() > 2",
        {
            "main": """
            BATCH = None
            def read():
                return len(BATCH)
            TABLE = {"a": read}
            def step(batch):
                global BATCH
                BATCH = batch
                if TABLE['a']() > 2: go()
        """,
        },
    ),
    "alias": (
        "f() > 2",
        {
            "main": """
            BATCH = None
            def read():
                return len(BATCH)
            f = read
            def step(batch):
                global BATCH
                BATCH = batch
                if f() > 2: go()
        """,
        },
    ),
    "module attr set": (
        "STEPS > 2",
        {
            "main": """
            import config
            def step(batch):
                config.STEPS = len(batch)
                config.run()
        """,
            "config": """
            STEPS = 1
            def run():
                if STEPS > 2: go()
        """,
        },
    ),
    "import as": (
        "r() > 2",
        {
            "main": """
            from helpers import read as r
            import helpers
            def step(batch):
                helpers.BATCH = batch
                if r() > 2: go()
        """,
            "helpers": """
            BATCH = None
            def read():
                return len(BATCH)
        """,
        },
    ),
    "star": (
        "read() > 2",
        {
            "main": """
            from helpers import *
            import helpers
            def step(batch):
                helpers.BATCH = batch
                if read() > 2: go()
        """,
            "helpers": """
            BATCH = None
            def read():
                return len(BATCH)
        """,
        },
    ),
    "walrus in comprehension": (
        "last > 2",
        {
            "main": """
            def step(batch):
                found = [last := one for one in batch]
                if last > 2: go()
        """,
        },
    ),
    "nonlocal": (
        "count > 2",
        {
            "main": """
            def step(batch):
                count = 0
                def add():
                    nonlocal count
                    count += len(batch)
                add()
                if count > 2: go()
        """,
        },
    ),
    "generator send": (
        "n > 2",
        {
            "main": """
            def step(batch):
                def gen():
                    n = yield
                    if n > 2: go()
                g = gen(); next(g); g.send(len(batch))
        """,
        },
    ),
    "partial": (
        "n > 2",
        {
            "main": """
            import functools
            def run(n):
                if n > 2: go()
            def step(batch):
                functools.partial(run, len(batch))()
        """,
        },
    ),
    "starred kwargs": (
        "n > 2",
        {
            "main": """
            def run(n=0):
                if n > 2: go()
            def step(batch):
                run(**{"n": len(batch)})
        """,
        },
    ),
    "tuple loop": (
        "n > 2",
        {
            "main": """
            def step(batch):
                for i, (n, m) in enumerate(zip(batch, batch)):
                    if n > 2: go()
        """,
        },
    ),
    "import shadow fn": (
        "n > 3",
        {
            "main": """
            def step(batch):
                import helpers as n
                def inner():
                    n = len(batch)
                    if n > 3: go()
                inner()
        """,
        },
    ),
    "match capture": (
        "n > 2",
        {
            "main": """
            def step(batch):
                match batch:
                    case [n, *_]:
                        if n > 2: go()
        """,
        },
    ),
    "setattr": (
        "self.n > 2",
        {
            "main": """
            class Job:
                def __init__(self): self.n = 0
                def run(self):
                    if self.n > 2: go()
            def step(batch):
                job = Job()
                setattr(job, "n", len(batch))
                job.run()
        """,
        },
    ),
    "globals()": (
        "N > 2",
        {
            "main": """
            N = 0
            def step(batch):
                globals()["N"] = len(batch)
                run()
            def run():
                if N > 2: go()
        """,
        },
    ),
    "exec": (
        "n > 2",
        {
            "main": """
            def step(batch):
                d = {}
                exec("n = len(batch)", {"batch": batch}, d)
                n = d["n"]
                if n > 2: go()
        """,
        },
    ),
    "dataclass field": (
        "self.n > 2",
        {
            "main": """
            @dataclass
            class Job:
                n: int = 0
                def run(self):
                    if self.n > 2: go()
            def step(batch):
                Job(len(batch)).run()
        """,
        },
    ),
    "augmented list": (
        "len(found) > 2",
        {
            "main": """
            def step(batch):
                found = []
                found += batch
                if len(found) > 2: go()
        """,
        },
    ),
    "del and rebind": (
        "x > 2",
        {
            "main": """
            def step(batch):
                x = 1
                del x
                x = len(batch)
                if x > 2: go()
        """,
        },
    ),
    "lambda call": (
        "n > 2",
        {
            "main": """
            def run(n):
                if n > 2: go()
            def step(batch):
                f = lambda: run(len(batch))
                f()
        """,
        },
    ),
    "thread": (
        "n > 2",
        {
            "main": """
            import threading
            def run(n):
                if n > 2: go()
            def step(batch):
                threading.Thread(target=run, args=(len(batch),)).start()
        """,
        },
    ),
    "eval": (
        "eval('n > 2')",
        {
            "main": """
            def step(batch):
                n = len(batch)
                if eval('n > 2'): go()
        """,
        },
    ),
}

INDEPENDENT = {
    "comprehension var": (
        "x > 2",
        {
            "main": """
            def step(batch):
                x = 1
                y = [x for x in batch]
                if x > 2: go()
        """,
        },
    ),
    "comprehension var 2": (
        "i > 2",
        {
            "main": """
            def step(batch):
                total = sum(i for i in batch)
                for i in range(3):
                    if i > 2: go()
        """,
        },
    ),
    "same name other fn": (
        "x > 2",
        {
            "main": """
            def step(batch):
                x = len(batch)
                run(3)
            def run(n):
                x = n
                if x > 2: go()
        """,
        },
    ),
    "global of other file": (
        "LIMIT > 2",
        {
            "main": """
            import other
            LIMIT = 3
            def step(batch):
                other.fill(batch)
                if LIMIT > 2: go()
        """,
            "other": """
            LIMIT = 0
            def fill(batch):
                global LIMIT
                LIMIT = len(batch)
        """,
        },
    ),
    "same-named fn other file": (
        "read() > 2",
        {
            "main": """
            import other
            def read():
                return 3
            def step(batch):
                other.read(batch)
                if read() > 2: go()
        """,
            "other": """
            def read(batch):
                return len(batch)
        """,
        },
    ),
    "same-named local fn": (
        "get() > 2",
        {
            "main": """
            def step(batch):
                def get():
                    return len(batch)
                get()
                run()
            def run():
                def get():
                    return 3
                if get() > 2: go()
        """,
        },
    ),
    "hand on to same-named": (
        "n > 2",
        {
            "main": """
            def step(batch):
                def act(m):
                    return m
                act(len(batch))
                run()
            def run():
                def act(n):
                    if n > 2: go()
                act(1)
        """,
        },
    ),
    "param shadows global": (
        "N > 2",
        {
            "main": """
            N = 0
            def step(batch):
                global N
                N = len(batch)
                run(1)
            def run(N):
                if N > 2: go()
        """,
        },
    ),
    "class body name": (
        "limit > 2",
        {
            "main": """
            def step(batch):
                limit = 1
                class Job:
                    limit = len(batch)
                if limit > 2: go()
        """,
        },
    ),
    "lambda param": (
        "n > 2",
        {
            "main": """
            def step(batch):
                n = 1
                total = map(lambda n: n + 1, batch)
                if n > 2: go()
        """,
        },
    ),
    "except name": (
        "e > 2",
        {
            "main": """
            def step(batch):
                e = 3
                def run():
                    try: go(batch)
                    except ValueError as e: pass
                run()
                if e > 2: go()
        """,
        },
    ),
    "eval of another name": (
        "eval('m > 2')",
        {
            "main": """
            def step(batch):
                n = len(batch)
                m = 1
                if eval('m > 2'): go()
        """,
        },
    ),
}


def depends(test, files):
    """Tell whether a test of ``main`` depends on the parameter of ``step``."""
    texts = {f"/job/{name}.py": textwrap.dedent(text) for name, text in files.items()}
    lines = texts["/job/main.py"].splitlines()
    line = next(at for at, one in enumerate(lines, 1) if one.startswith("def step"))
    found = read_tests(texts, ("/job/main.py", line), ["batch"])
    (known,) = {one.depends for one in found if one.text == test}
    return known


@pytest.mark.parametrize("name", DEPENDS)
def test_a_value_is_followed_whatever_name_it_goes_by(name):
    """A default, a class, a global, an alias, a callback or a text that is run hands a value on."""
    assert depends(*DEPENDS[name])


@pytest.mark.parametrize("name", INDEPENDENT)
def test_names_of_one_spelling_in_other_scopes_are_other_names(name):
    """A variable of a comprehension, a parameter, another file's global or function is its own."""
    assert not depends(*INDEPENDENT[name])


def test_what_depends_is_handed_on_once(monkeypatch):
    """Many calls of something unknown with many functions as values do not cost their product."""
    handed = []
    hand_on = Program._hand_on

    def counted(*given):
        handed.append(given)
        hand_on(*given)

    monkeypatch.setattr(Program, "_hand_on", counted)
    functions = "\n".join(f"def one{n}(a, b):\n    return a" for n in range(40))
    calls = "\n".join(f"    call(batch, {n})" for n in range(40))
    table = f"TABLE = [{', '.join(f'one{n}' for n in range(40))}]"
    text = f"{functions}\n{table}\ndef step(batch, call):\n{calls}\n    if one7(batch, 1): go()\n"
    line = text[: text.index("def step")].count("\n") + 1
    (found,) = read_tests({"job.py": text}, ("job.py", line), ["batch"])
    assert found.depends
    assert len(handed) < 3 * 40
