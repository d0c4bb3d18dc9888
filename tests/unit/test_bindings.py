"""Whose a name is that a test names: told from its namesakes, and none of its values lost."""

from __future__ import annotations

import ast

import pytest

from planguard.capture.names.bindings import Bindings
from planguard.capture.names.source import tree_of
from planguard.capture.play.further import Further
from planguard.capture.values.own_answers import PROCESS


def values(folder, job, **others):
    """What the right side of ``x == ...`` in the first file may be, with others in the process."""
    for name, text in {"job": job, **others}.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    files = [str(file) for file in sorted(folder.rglob("*.py"))]
    tree = tree_of(str(folder / "job.py"))
    tests = [one for one in ast.walk(tree.root) if isinstance(one, ast.Compare)]
    wanted = next(one for one in tests if ast.unparse(one.left) == "x")
    return set(Bindings(files).values(wanted.comparators[0]))


TEST = "def job(x, cfg=None):\n    if x == {}: save()\n"
FOUND = [
    # through functions
    ("def job(x):\n    n = 43\n    if x == n: save()", {}),
    ("n = 43\n" + TEST.format("n"), {}),
    ("def outer():\n  n = 43\n  def job(x):\n    return x == n\n  return job", {}),
    ("def a():\n  n = 1\n  def b():\n    nonlocal n\n    n = 43\n  def job(x): return x == n", {}),
    ("n = 1\ndef more():\n  global n\n  n = 43\n" + TEST.format("n"), {}),
    ("def job(x, n=1):\n    if x == n: save()\njob(2, 43)", {}),
    ("def job(x, n=1):\n    if x == n: save()\njob(2, n=43)", {}),
    ("def job(x, n=1):\n    if x == n: save()", {"main": "import job\njob.job(1, 43)"}),
    ("def job(x, n=1):\n    if x == n: save()", {"main": "from job import job as run\nrun(1, 43)"}),
    ("def job(x, n=1):\n    if x == n: save()\nrun = job", {"main": "import job\njob.run(1, 43)"}),
    ("def job(x, n=1):\n    if x == n: save()\nThread(target=job, args=(2, 43))", {}),
    ("def job(x, n=1):\n    if x == n: save()\npartial(job, n=43)", {}),
    ("def job(x, n=1):\n    if x == n: save()\nhooks = [job]\nfor hook in hooks: hook(2, 43)", {}),
    ("def job(x, n=1):\n    if x == n: save()\njob(**{'n': 43})", {}),
    ("def job(x, n=1):\n    if x == n: save()\njob(*(2, 43))", {}),
    ("def job(x, n=1):\n    if x == n: save()\ndef run(**more): job(1, **more)\nrun(n=43)", {}),
    ("@click.option('--n', default=43)\ndef job(x, n=1):\n    if x == n: save()", {}),
    ("@wraps\ndef job(x, n=1):\n    if x == n: save()\nrun(n=43)", {}),
    ("def job(x, *, n=43):\n    if x == n: save()", {}),
    ("n = 43\ndef job(x, n=n):\n    if x == n: save()", {}),
    ("n = [42]\nlist(m + 1 for m in n)\ndef job(x): return x == [m + 1 for m in n]", {}),
    ("def job(x):\n    if x == end(): save()\ndef end(): return 43", {}),
    ("def job(x):\n    if (n := 43) and x == n: save()", {}),
    # through modules
    ("from cfg import n\n" + TEST.format("n"), {"cfg": "n = 43"}),
    ("from cfg import n as m\n" + TEST.format("m"), {"cfg": "n = 43"}),
    ("from cfg import *\n" + TEST.format("n"), {"cfg": "n = 43"}),
    ("import cfg\ndef job(x): return x == cfg.n", {"cfg": "n = 43"}),
    ("import cfg as c\n" + TEST.format("c.n"), {"cfg": "n = 43"}),
    ("import pack.cfg\n" + TEST.format("pack.cfg.n"), {"pack__cfg": "n = 43"}),
    ("from pack import cfg as c\n" + TEST.format("c.n"), {"pack__cfg": "n = 43"}),
    ("from pack import n\n" + TEST.format("n"),
     {"pack____init__": "from .cfg import n", "pack__cfg": "n = 43"}),
    ("from pack import n\n" + TEST.format("n"),
     {"pack____init__": "from .cfg import *", "pack__cfg": "n = 43"}),
    ("def job(x):\n    from cfg import n\n    if x == n: save()", {"cfg": "n = 43"}),
    ("n = 1\n" + TEST.format("n"), {"main": "import job\njob.n = 43"}),
    ("n = 1\n" + TEST.format("n"), {"main": "import job\nsetattr(job, 'n', 43)"}),
    ("n = 1\nglobals()['n'] = 43\n" + TEST.format("n"), {}),
    ("n = 1\nglobals().update(n=43)\n" + TEST.format("n"), {}),
    ("n = 1\n" + TEST.format("n"), {"main": "import job\nfor m in (job,): m.n = 43"}),
    (TEST.format("cfg.n"), {"main": "import cfg, job\njob.job(1, cfg)", "cfg": "n = 43"}),
    (TEST.format("cfg.n"), {"main": "job(1, import_module('cfg'))", "cfg": "n = 43"}),
    ("from lost import n\n" + TEST.format("n"), {"found": "n = 43"}),
    (TEST.format("n"), {"main": "import builtins\nbuiltins.n = 43"}),
    # through classes
    ("class T:\n  def __init__(self): self.n = 43\n  def job(self, x): return x == self.n", {}),
    ("class T:\n  n = 43\n  def job(self, x): return x == self.n", {}),
    ("class T:\n  n = 43\n  @classmethod\n  def job(cls, x): return x == cls.n", {}),
    (("class T:\n  def __init__(self, n=1): self.n = n\n  def job(self, x): return x == self.n\n"
     "T(43)"), {}),
    ("class T:\n  def __init__(self, n=1): self.n = n\n  def job(self, x): return x == self.n",
     {"main": "from job import T\nclass U(T): pass\nU(n=43)"}),
    ("from base import B\nclass T(B):\n  n = 1\n  def job(self, x): return x == self.n",
     {"base": "class B:\n  def set(self): self.n = 43"}),
    ("class T:\n  n = 1\n  def job(self, x): return x == self.n",
     {"more": "from job import T\nclass U(T):\n  n = 43"}),
    ("class M:\n  def job(self, x): return x == self.n\nclass T(M):\n  n = 43", {}),
    ("class T:\n  n = 1\n  def job(self, x): return x == self.n\nt = T()\nt.n = 43", {}),
    ("class T:\n  n = 1\n  def job(self, x): return x == self.n\nT.n = 43", {}),
    ("class T:\n  n = 1\n  def job(self, x): return x == self.n",
     {"main": "def change(t): setattr(t, 'n', 43)"}),
    ("class T:\n  n = 1\n  def job(self, x): return x == self.n",
     {"main": "add_argument('--n', default=43); parse_args(namespace=T())"}),
    (("class T:\n  n = 1\n  def job(self, x): return x == self.n\n"
     "for k, v in dict(n=43).items(): setattr(T, k, v)"), {}),
    (("class T:\n  n = 1\n  def __init__(self, c): self.__dict__.update(vars(c))\n"
     "  def job(self, x): return x == self.n\nclass C:\n  def __init__(self): self.n = 43"), {}),
    (("class T:\n  n = 1\n  def __getattr__(self, k): return getattr(self.c, k)\n"
     "  def job(self, x): return x == self.n\nclass C:\n  def __init__(self): self.n = 43"), {}),
    (("class T:\n  n = 1\n  def job(self, x):\n    self = C()\n    return x == self.n\n"
     "class C:\n  n = 43"), {}),
    ("@dataclass\nclass C:\n  n: int = 1\ndef job(x, c): return x == c.n\njob(1, C(43))", {}),
    (("@dataclass\nclass C:\n  n: int = 1\n@dataclass\nclass D(C):\n  m: int = 1\n"
     "def job(x, c): return x == c.n\njob(1, D(43, 2))"), {}),
    ("class C(NamedTuple):\n  n: int\ndef job(x, c): return x == c.n\nreplace(c, n=43)", {}),
    ("class T:\n  @property\n  def n(self): return 43\ndef job(x, t): return x == t.n", {}),
    ("class T:\n  def end(self): return 43\n  def job(self, x): return x == self.end()", {}),
    (("class T:\n  def __call__(self, n): self.n = n\n  def job(self, x): return x == self.n\n"
     "t = T()\nt(43)"), {}),
    # through entries
    (TEST.format("cfg['n']"), {"main": "job(1, {'n': 43})"}),
    (TEST.format("cfg['n']"), {"main": "cfg = {}\ncfg['n'] = 43"}),
    (TEST.format("cfg.n"), {"main": "job(1, SimpleNamespace(n=43))"}),
    (TEST.format("cfg.n"), {"main": "add_argument('--n', default=43)"}),
    (TEST.format("cfg.n"), {"main": "add_argument('--number', dest='n', default=43)"}),
    (TEST.format("cfg.n"), {"main": "parser.set_defaults(n=43)"}),
    (TEST.format("cfg['n']"), {"main": "class C:\n  n = 43\njob(1, vars(C))"}),
]  # fmt: skip


@pytest.mark.parametrize(("job", "others"), FOUND)
def test_no_value_of_a_name_is_lost(tmp_path, job, others):
    """Functions, modules, classes, entries: whoever gives it one, by whatever way."""
    assert 43 in values(tmp_path, job, **others)


NAMESAKES = {
    "a": "def other():\n    n = 43\n    return n",
    "b": "n = 43",
    "c": "def other(n=43): return n\nother(43)\nother(n=43)",
    "d": "for n in range(43): print(n)",
    "e": "class Other:\n  def __init__(self): self.n = 43",
    "f": "class Other:\n  n = 43",
    "g": "[n for n in (43, 44)]\nlambda n=43: n",
    "h": "from b import n",
    "i": "def n(): return 43",
}
"""Files of the same process with other things of that name."""
APART = [
    ("def job(x):\n    n = 1\n    if x == n: save()", "abcdefghi"),
    ("n = 1\n" + TEST.format("n"), "abcdefghi"),
    ("n = 43\ndef job(x, n=1):\n    if x == n: save()", "abcdefghi"),
    ("def job(x):\n    n = 1\n    if x == n: save()\ndef other():\n    n = 43", "abcdefghi"),
    ("from cfg import n\n" + TEST.format("n"), "abcdefghi"),
    ("import cfg as c\n" + TEST.format("c.n"), "abcdefghi"),
    ("class T:\n  def __init__(self): self.n = 1\n  def job(self, x): return x == self.n",
     "abcdefghi"),
    (TEST.format("cfg.n") + "job(1, SimpleNamespace(n=1))", "abcdghi"),
    (TEST.format("cfg['n']") + "job(1, {'n': 1})", "abcdghi"),
    ("def job(x):\n    if x == n(): save()\ndef n(): return 1", "abcdefghi"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "others"), APART)
def test_namesakes_are_told_apart(tmp_path, job, others):
    """Other functions, modules and classes bind the same name: theirs is not what is meant."""
    texts = {name: NAMESAKES[name] for name in others}
    assert values(tmp_path, job, cfg="n = 1", **texts) == {1}


@pytest.mark.parametrize(("bound", "is_known"), [("def other():\n    n = {}", True), ("", False)])
def test_namesakes_leave_nothing_untried(tmp_path, bound, is_known):
    """Forty values of that name elsewhere are no answers; of the name that is meant, they are."""
    own = "n = 1" if is_known else "\n".join(f"n = {at}" for at in range(40))
    file = tmp_path / "job.py"
    file.write_text(f"{own}\nx = getpid()\nif x == n: save()\n")
    other = tmp_path / "other.py"
    other.write_text("\n".join(bound.format(at).replace("other", f"of_{at}") for at in range(40)))
    place = f"{file}:{len(own.splitlines()) + 1}"
    found = Further.of([(PROCESS, place)], [str(file), str(other)])
    assert bool(found.untried) is not is_known
