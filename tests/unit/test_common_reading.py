"""JSON that adapters read: every value knows its place, and no key counts twice."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from planguard import registry
from planguard.errors import PlanError

registry.find("fx")  # mounts planguard.planners where it is not installed

from planguard.planners.common.reading import At, load_json  # noqa: E402


def read(tmp_path, text, *, packed=False):
    """Read a text from a file."""
    path = tmp_path / "one.json"
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(data) if packed else data)
    return load_json(path).value


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"b": [{"a": 1, "c": {"a": 1}, "a": 1}]}',
        '{"a": 1, "\\u0061": 2}',
        '{"a:b": 1, "a:b": ":"}',
        '{"a": "\\u003a", "b": {"x": 1, "x": 2}}',
        '{"a": "::", "b": {"x:": "\\u003a", "x:": 2}}',
        "[NaN]",
        "[1,]",
        '{"a": 1} x',
        '["a\tb"]',
        "",
        "[Infinity]",
    ],
)
def test_what_is_no_json_or_has_a_key_twice_is_refused(text, packed, tmp_path):
    """However the key is written, and wherever colons stand besides."""
    with pytest.raises(PlanError, match="is not valid JSON"):
        read(tmp_path, text, packed=packed)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "x:y", "b:c": ["::", {"d": ":"}]}',
        '{"a": "\\u003a\\u003A", "b": 1}',
        '["\\ud800"]',
        "[123456789012345678901234567890, -9223372036854775809, 1e400, 0.1, -0.0, 1E5]",
        '\ufeff{"a": 1}',
        '  {"a": {}, "b": [], "c": null, "d": true, "e": "\\"\\\\/"}  ',
    ],
)
def test_what_python_reads_is_read_alike(text, tmp_path):
    """Large numbers, lone surrogates, a mark of byte order: as ``json.loads`` has them."""
    assert read(tmp_path, text) == json.loads(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("seed", range(200))
def test_random_documents_are_read_alike_or_refused_alike(seed, tmp_path):
    """A document whose keys are drawn from few is refused if and only if one occurs twice."""
    rng = random.Random(seed)
    twice = False

    def text(depth):
        nonlocal twice
        kind = rng.randrange(6 if depth < 4 else 4)
        if kind == 4:
            return f"[{', '.join(text(depth + 1) for _ in range(rng.randrange(4)))}]"
        if kind == 5:
            keys = [rng.choice(("a", "b", ":", "c:d", "\\u0061")) for _ in range(rng.randrange(4))]
            meant = [json.loads(f'"{key}"') for key in keys]
            twice = twice or len(set(meant)) < len(meant)
            inside = ", ".join(f'"{key}": {text(depth + 1)}' for key in keys)
            return "{" + inside + "}"
        return (str(rng.randrange(9)), '":"', "null", '"\\u003a"')[kind]

    made = text(0)
    if twice:
        with pytest.raises(PlanError, match="duplicate key"):
            read(tmp_path, made)
    else:
        assert read(tmp_path, made) == json.loads(made)


def test_places_are_those_that_lead_to_a_value():
    """Names with a dot, numbers with brackets, from where the reading began."""
    top = At({"a": [{"b": 1}, {"b": [2, {"x-own": 3, "c": "four"}]}]}, file="one.json")
    inner = list(list(top.fields("a")["a"].each())[1].fields("b")["b"].each())[1]
    assert inner.path == "$.a[1].b[1]"
    assert inner.fields("c")["c"].path == "$.a[1].b[1].c"
    with pytest.raises(PlanError, match="unknown field 'c'") as caught:
        inner.fields("d")
    assert caught.value.path == "$.a[1].b[1].c"
    assert caught.value.code == "PG906"
    assert caught.value.file == "one.json"
    assert At([5], "stage 1 step 2").path == "stage 1 step 2"
    assert next(At([5], "stage 1").each()).path == "stage 1[0]"
