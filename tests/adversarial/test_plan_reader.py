"""Hostile and damaged plan files: each is a PlanError, within limits of time and memory."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planguard.errors import PlanError
from planguard.plan.format import read
from planguard.plan.limits import Limits
from planguard.plan.plan import Plan

DATA = Path(__file__).parent / "data" / "plans"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

HEAD = (EXAMPLES / "head-to-head.plan.json").read_bytes()
LATER = (EXAMPLES / "later.plan.json").read_bytes()
EVERY = (EXAMPLES / "every-op.plan.json").read_bytes()
PEER = b'"peer": 1, "count": 1'


def _refused(data: Any, **options: Any) -> PlanError:
    start = time.process_time()
    with pytest.raises(PlanError) as error:
        read(data, **options)
    assert time.process_time() - start < 10
    assert error.value.hint
    assert len(str(error.value)) < 2000
    return error.value


def _with(text: bytes) -> bytes:
    """The head-to-head plan with one peer replaced by other text."""
    return HEAD.replace(PEER, text, 1)


HOSTILE: dict[str, bytes] = {
    "empty file": b"",
    "not an object": b"[]",
    "null": b"null",
    "a number": b"1",
    "text": b"plan: yes",
    "one byte short": HEAD.rstrip()[:-1],
    "an operation that is a map": b'{"world_size": 2, "ranks": {}, "op": {"a": 1}}',
    "trailing object": HEAD + b"{}",
    "trailing bracket": HEAD.rstrip() + b"]",
    "trailing comma": _with(b'"peer": 1, "count": 1,'),
    "comment": HEAD + b"// end",
    "byte order mark": b"\xef\xbb\xbf" + HEAD,
    "UTF-16": HEAD.decode().encode("utf-16"),
    "UTF-8 that is not": _with(b'"label": "\xff\xfe", ' + PEER),
    "overlong UTF-8": _with(b'"label": "\xc0\xaf", ' + PEER),
    "surrogate in UTF-8": _with(b'"label": "\xed\xa0\x80", ' + PEER),
    "lone surrogate escape": _with(b'"label": "\\ud800", ' + PEER),
    "invalid key": _with(b'"\xff": 1, ' + PEER),
    "raw control character": _with(b'"label": "a\nb", ' + PEER),
    "NUL byte": HEAD.replace(b"{", b"{\0", 1),
    "NaN": _with(b'"peer": NaN, "count": 1'),
    "Infinity": _with(b'"peer": Infinity, "count": 1'),
    "minus Infinity": _with(b'"peer": -Infinity, "count": 1'),
    "float beyond range": HEAD.replace(b'"op": "send"', b'"op": "compute", "flops": 1e400', 1),
    "2^63": _with(b'"peer": 1, "count": 9223372036854775808'),
    "2^64": _with(b'"peer": 1, "count": 18446744073709551616'),
    "-2^63 - 1": _with(b'"peer": 1, "mb": -9223372036854775809, "count": 1'),
    "a million digits": _with(b'"peer": 1, "count": ' + b"9" * 10**6),
    "a million digits in a union": _with(b'"count": 1, "peer": ' + b"9" * 10**6),
    "a million digits in an extension": _with(PEER + b', "x-n": ' + b"9" * 10**6),
    "five thousand digits in a step": _with(b'"count": 1, "peer": {"pp": ' + b"9" * 5000 + b"}"),
    "leading zero": _with(b'"peer": 01, "count": 1'),
    "float where an integer belongs": _with(b'"peer": 1.0, "count": 1'),
    "exponent where an integer belongs": _with(b'"peer": 1e0, "count": 1'),
    "boolean where an integer belongs": _with(b'"peer": true, "count": 1'),
    "deep arrays": b"[" * 10**5,
    "deep arrays, closed": b"[" * 10**5 + b"]" * 10**5,
    "deep objects": b'{"x-a":' * 10**5,
    "deep objects, closed": b'{"x-a":' * 10**5 + b"1" + b"}" * 10**5,
    "deep extension": _with(PEER + b', "x-a": ' + b"[" * 10**5 + b"]" * 10**5),
    "deep extension below the parser's limit": _with(
        PEER + b', "x-a": ' + b"[" * 900 + b"]" * 900 + b', "asnyc": 1'
    ),
    "deep blocks": HEAD.replace(
        b'{"op": "send"', b'{"op":"repeat","times":1,"body":[' * 10**5 + b'{"op": "send"', 1
    ),
    "blocks beyond the limit": HEAD.replace(
        b'{"op": "send", "peer": 1, "count": 1, "dtype": "f32"}',
        b'{"op":"repeat","times":1,"body":[' * 100 + b'{"op":"barrier"}' + b"]}" * 100,
        1,
    ),
    "blocks that multiply": HEAD.replace(
        b'{"op": "send", "peer": 1, "count": 1, "dtype": "f32"}',
        b'{"op":"repeat","times":4000000000,"body":[' * 60 + b'{"op":"barrier"}' + b"]}" * 60,
        1,
    ),
    "endless loop": HEAD.replace(
        b'{"op": "send", "peer": 1, "count": 1, "dtype": "f32"}',
        b'{"op":"repeat","times":9223372036854775807,"body":[{"op":"barrier","label":"{i}"}]}',
        1,
    ),
    "labels without end": HEAD.replace(
        b'{"op": "send", "peer": 1, "count": 1, "dtype": "f32"}',
        b'{"op":"repeat","times":4000000000,"body":[{"op":"barrier","label":"{i}"}]}',
        1,
    ),
    "duplicate key in an action": _with(b'"peer": 1, ' + PEER),
    "duplicate key at the top": HEAD.replace(
        b'"world_size": 2', b'"world_size": 3, "world_size": 2'
    ),
    "duplicate key behind an escape": _with(b'"\\u0070eer": 0, ' + PEER),
    "duplicate rank": HEAD.replace(b'"1": {', b'"0": {"actions": []}, "1": {'),
    "duplicate key in an extension": _with(PEER + b', "x-a": {"b": 1, "b": 2}'),
    "duplicate key hidden by an escaped colon": _with(b'"label": "\\u003a", "peer": 0, ' + PEER),
    "ten million ranks": HEAD.replace(b'"world_size": 2', b'"world_size": 10000000'),
    "2^62 ranks": HEAD.replace(b'"world_size": 2', b'"world_size": 4611686018427387904'),
    "mesh beyond numbers": HEAD.replace(
        b'"world_size": 2',
        b'"world_size": 2, "mesh": {"dims": ['
        + b",".join(b'["d%d", 9223372036854775807]' % i for i in range(3000))
        + b"]}",
    ),
    "a selector of many digits": HEAD.replace(b'"1": {', b'"' + b"9" * 10**5 + b'": {'),
    "a selector of many parts": HEAD.replace(b'"1": {', b'"' + b"0," * 10**5 + b'": {'),
    "a size beyond 2^63": _with(b'"peer": 1, "shape": [4294967296, 4294967296]').replace(
        b', "dtype": "f32"', b', "dtype": "f64"', 1
    ),
    "a shape of many ones": _with(b'"peer": 1, "shape": [' + b"2," * 10**5 + b"2]"),
    "an unknown field with terminal escapes": _with(PEER + b', "\\u001b[2J\\nverdict: SAFE": 1'),
    "an unknown field of a megabyte": _with(PEER + b', "' + b"a" * 10**6 + b'": 1'),
    "an unknown operation of a megabyte": HEAD.replace(b'"send"', b'"' + b"s" * 10**6 + b'"', 1),
    "gzip cut short": gzip.compress(HEAD)[:-9],
    "gzip with a wrong checksum": gzip.compress(HEAD)[:-8] + b"\0" * 8,
    "gzip followed by garbage": gzip.compress(HEAD) + b"garbage",
    "gzip inside gzip": gzip.compress(gzip.compress(HEAD)),
    "gzip header only": b"\x1f\x8b",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "XML": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str) -> None:
    """Each ends in one PlanError with a hint, of bounded length, in bounded time."""
    error = _refused(HOSTILE[name], file="hostile.plan.json")
    assert error.file == "hostile.plan.json"
    assert str(error).isascii()
    assert str(error).replace("\n", "").isprintable()


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_a_collected_file_gets_the_answer_that_stands_in_it(path: Path) -> None:
    """The files of data/plans carry the expected code and JSON path in x-expect; those that expect
    null are read.
    """
    expected = json.loads(path.read_text())["x-expect"]
    if expected is None:
        assert isinstance(read(path), Plan)
    else:
        error = _refused(path)
        assert [error.code, error.path] == expected


def test_a_gzip_bomb_costs_no_more_than_the_limit() -> None:
    """A gigabyte of zeros in one megabyte is refused after the limit, in one stream and in many."""
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(2**20)
    one = b"".join([*(packer.compress(block) for _ in range(1024)), packer.flush()])
    assert len(one) < 2 * 2**20
    many = gzip.compress(bytes(2**24)) * 64
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for bomb in (one, many):
        assert "more than" in _refused(bomb, limits=Limits(file_bytes=2**24)).message
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 200 * 1024


def test_an_endless_file_is_read_to_the_limit_only() -> None:
    """/dev/zero is refused after the limit."""
    assert "more than" in _refused("/dev/zero", limits=Limits(file_bytes=2**20)).message


def test_the_worst_small_plans_stay_small_in_memory() -> None:
    """The largest plan of the shortest actions that a file of 8 MB can hold takes less than 400 MB
    in a fresh process, and is read in seconds.
    """
    script = (
        "import re\n"
        "from pathlib import Path\n"
        "from planguard.plan.format import read\n"
        'n = 8_000_000 // len(b\'{"op":"exit"},\')\n'
        "body = b','.join([b'{\"op\":\"exit\"}'] * n)\n"
        'text = b\'{"schema":"planguard.plan/1","world_size":1,"ranks":{"0":{"actions":[\'\n'
        "plan = read(text + body + b']}}}')\n"
        "assert plan.length(0) == n\n"
        # ru_maxrss would carry over what the parent held when it forked.
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())\n"
        "print(int(peak[1]) // 1024)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert int(run.stdout) < 400


def test_names_of_files_never_come_from_the_plan(tmp_path: Path) -> None:
    """Reading a plan full of paths touches no file beside it."""
    path = tmp_path / "a.plan.json"
    evil = "../../../../tmp/evil"
    text = HEAD.replace(b'"world_size"', f'"name": "{evil}", "world_size"'.encode())
    path.write_bytes(text.replace(b'"op": "send"', f'"src": ["{evil}"], "op": "send"'.encode(), 1))
    plan = read(path)
    assert plan.name == evil
    assert os.listdir(tmp_path) == ["a.plan.json"]  # noqa: PTH208 - names only


# Fuzzing: nothing but PlanError


def _survives(data: bytes) -> None:
    try:
        answer: Plan | PlanError = read(data)
    except PlanError as error:
        answer = error
    assert isinstance(answer, Plan) or str(answer)


@given(st.binary(max_size=200))
@example(b"{}")
def test_any_bytes_give_a_plan_or_a_plan_error(data: bytes) -> None:
    """Random bytes raise nothing but PlanError."""
    _survives(data)


@given(st.binary(max_size=60))
def test_any_bytes_behind_a_gzip_header_give_a_plan_error(data: bytes) -> None:
    """Random bytes with the magic of gzip, and random bytes compressed, raise only PlanError."""
    _survives(b"\x1f\x8b" + data)
    _survives(gzip.compress(data))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["send", "repeat", "any", "world", "pp=0", "0-1", "x-a", "{i}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["op", "peer", "body", "actions", "0", "ops", "x-a", "wrap", "pp"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from([HEAD, EVERY, LATER]), st.data())
def test_a_plan_with_any_value_anywhere_gives_a_plan_or_a_plan_error(
    text: bytes, data: st.DataObject
) -> None:
    """Replacing random values of real plans by random JSON raises nothing but PlanError."""
    plan = json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        target, key = _somewhere(plan, data)
        target[key] = data.draw(_JSON)
    _survives(json.dumps(plan).encode())


def _somewhere(plan: Any, data: st.DataObject) -> tuple[Any, Any]:
    """A random container of the plan, and one of its keys."""
    target, key = plan, data.draw(st.sampled_from(sorted(plan)))
    while isinstance(target[key], dict | list) and target[key] and data.draw(st.booleans()):
        target = target[key]
        keys = sorted(target) if isinstance(target, dict) else range(len(target))
        key = data.draw(st.sampled_from(list(keys)))
    return target, key


_TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u003a", b"1", b"-", b"e9",
           b"null",
           b'"op"', b'"x-a"', b'"id":"a",', b'"after":["a"],', b"9" * 25, b"\xff"]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_damaged_plans_give_a_plan_or_a_plan_error(seed: int) -> None:
    """Byte flips, cuts, insertions and splices of real plans, 250 a seed, raise only PlanError."""
    chance = random.Random(seed)
    for _ in range(250):
        data = bytearray(chance.choice([HEAD, EVERY, LATER]))
        for _ in range(chance.randint(1, 4)):
            _damage(data, chance)
        _survives(bytes(data))


def _damage(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data)) if data else 0
    kind = chance.randrange(5)
    if kind == 0 and data:
        data[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del data[place : place + chance.randint(1, 40)]
    elif kind == 2:
        data[place:place] = chance.choice(_TOKENS)
    elif kind == 3:
        other = chance.choice([HEAD, EVERY, LATER])
        start = chance.randrange(len(other))
        data[place:place] = other[start : start + chance.randint(1, 200)]
    else:
        end = place + chance.randint(1, 80)
        data[place:place] = data[place:end]
