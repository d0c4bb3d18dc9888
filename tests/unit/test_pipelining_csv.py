"""The pipelining adapter: reading schedules, and what it refuses."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planguard.planners.pipelining import adapter
from planguard.planners.pipelining.actions import Action, Kind, parse_cell
from planguard.planners.pipelining.csvfile import parse_csv

from planguard.errors import PlanError
from planguard.plan.building.builder import PlanBuilder

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "tests" / "samples" / "pipelining").glob("*.csv"))


def adapt(text: str, **options):
    """Adapt the text of a CSV."""
    return adapter.adapt(text.encode(), PlanBuilder, **options)


def refused(text: str, **options) -> PlanError:
    """Give the error with which a CSV is refused."""
    with pytest.raises(PlanError) as caught:
        adapt(text, **options)
    return caught.value


leaves = st.builds(
    Action,
    st.sampled_from([Kind.F, Kind.B, Kind.I, Kind.W]),
    st.integers(0, 10**9 - 1),
    st.integers(0, 10**9 - 1),
)
actions = st.one_of(
    leaves,
    st.builds(
        Action,
        st.sampled_from([Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B]),
        st.integers(0, 999),
        st.integers(0, 999),
    ),
    st.builds(
        Action,
        st.sampled_from([Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD]),
        st.integers(0, 999),
        st.none(),
    ),
    st.lists(leaves, min_size=1, max_size=3).map(
        lambda parts: Action(Kind.OVERLAP_F_B, -1, None, tuple(parts))
    ),
)


@given(actions)
def test_every_action_type_survives_its_text(action: Action) -> None:
    """An action reads back from the text that torch prints for it, all twelve types."""
    assert parse_cell(str(action)) == action


@given(actions, st.text(min_size=1, max_size=5))
def test_a_cell_is_read_as_a_whole(action: Action, garbage: str) -> None:
    """Text after an action is never dropped: the whole is refused, or read as another action."""
    text = str(action) + garbage
    if not garbage.strip(" \t"):
        assert parse_cell(text) == action
        return
    try:
        read = parse_cell(text)
    except ValueError:
        return
    assert str(read) == text.strip(" \t")


@pytest.mark.parametrize(
    "cell",
    """0F3junk|0F3 1F0|0F|F3|-1F0|0X1|0UNSHARD3|0F3;1B0|(0F3;1B0)|0F3)|()OVERLAP_F_B|
    (0SEND_F1)OVERLAP_F_B|(0F1)OVERLAP_F_B2|(0F1;)OVERLAP_F_B|((0F1)OVERLAP_F_B)OVERLAP_F_B|
    0OVERLAP_F_B|1234567890F0|0F\u0663|0f0|0BW0|0F00|00F0|__import__('os').system('false')
    """.replace("\n", "")
    .replace("    ", "")
    .split("|"),
)
def test_malformed_cell_is_refused_with_row_and_cell(cell: str) -> None:
    """A cell that torch reads by its prefix, or not at all, is an error that names row and cell."""
    error = refused(f'0F0,0B0\n1F0,1B0,"{cell}"\n')
    assert error.code == "PG901"
    assert error.path == "row 2, cell 3"
    assert error.file == "schedule.csv"
    assert error.hint


def test_trailing_garbage_that_torch_accepts_is_named() -> None:
    """'0F3junk', which torch's parser reads as 0F3, is refused and the garbage is named."""
    error = refused("0F0,0F1junk\n")
    assert "trailing text after 0F1" in str(error)
    assert "0F1junk" in str(error)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n", "empty row"),
        (b"0F0\n\n1F0\n", "empty row"),
        (b"\xff\xfe0F0", "UTF-8"),
        (b'"0F0', "CSV"),
        (b"0F0\x00", "trailing text|CSV"),
        (b"0F0," + b"9" * 200_000, "CSV|too large|not an action"),
        (b",,\n,,\n", "no action"),
    ],
)
def test_malformed_file_is_refused(data: bytes, words: str) -> None:
    """A file that is not a CSV of actions is one clear PlanError."""
    with pytest.raises(PlanError, match=words):
        adapter.adapt(data, PlanBuilder)


def test_missing_file_is_a_plan_error(tmp_path: Path) -> None:
    """A path that cannot be read is a PlanError with the path."""
    with pytest.raises(PlanError, match=r"none\.csv"):
        adapter.adapt(tmp_path / "none.csv", PlanBuilder)


def test_too_large_file_is_refused(tmp_path: Path) -> None:
    """A file beyond the limit is refused without being parsed."""
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(PlanError, match="larger than 64 MiB"):
        adapter.adapt(path, PlanBuilder)


def test_bubbles_belong_to_compute_only_schedules() -> None:
    """An empty cell is a bubble without communication and an error with it, as in torch."""
    assert adapt("0F0,,0B0\n,1F0,1B0\n").world_size == 2
    error = refused("0F0,0SEND_F0,,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    assert error.path == "row 1, cell 3"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("0B0,0F0\n", "PG901", r"0B0 in row 1, cell 1 needs 0F0 of row 1, cell 2"),
        ("0B0\n", "PG901", "0B0 needs 0F0, which rank 0 never runs"),
        ("0F0,0W0,0I0\n", "PG901", r"0W0 in row 1, cell 2 needs 0I0 of row 1, cell 3"),
        ("1F0,0F0\n", "PG901", r"1F0 in row 1, cell 1 needs 0F0 of row 1, cell 2"),
        ("0F0,1F0,0B0,1B0\n", "PG901", r"0B0 in row 1, cell 3 needs 1B0 of row 1, cell 4"),
        ("(1F0;0F0)OVERLAP_F_B\n", "PG901", "1F0 in row 1, cell 1 needs 0F0"),
        ("0SEND_F0,0F0\n1RECV_F0,1F0\n", "PG901", r"0SEND_F0 in row 1, cell 1 needs 0F0"),
        ("0F0,0SEND_F0\n1F0,1RECV_F0\n", "PG901", r"1F0 in row 2, cell 1 needs 1RECV_F0 of row 2"),
        ("0F0,0SEND_F0\n1F0\n", "PG901", "1F0 needs 1RECV_F0, which rank 1 never runs"),
        ("0F0,0SEND_F0\n1RECV_F0,1RECV_F0,1F0\n", "PG901", "received twice"),
        ("0F0,0F0\n", "PG901", "0F0 runs twice"),
        ("0F0\n0F1\n", "PG901", "stage 0 is on rank 1 here and on rank 0"),
        ("0F0\n2F0\n", "PG901", "stage 1 is on no rank"),
        ("0F0,0SEND_F0\n", "PG402", "there is no stage 1"),
        ("0F0,0RECV_F0\n1F0\n", "PG402", "there is no stage -1"),
        ("0F0,0SEND_F0,1RECV_F0,1F0\n", "PG010", "both on rank 0"),
    ],
)
def test_what_one_rank_alone_makes_impossible_is_refused(text: str, code: str, words: str) -> None:
    """An action that consumes what its own rank produces later or never is refused at the door,
    naming both cells; so are transfers without a peer.
    """
    with pytest.raises(PlanError, match=words) as caught:
        adapt(text)
    assert caught.value.code == code
    assert caught.value.path.startswith("row ")


def test_number_of_microbatches_is_checked_when_given() -> None:
    """With the option microbatches, a stage that runs another number of forwards is refused."""
    assert adapt("0F0,0F1\n1F0,1F1\n", microbatches=2)
    with pytest.raises(PlanError, match="stage 0 runs 2 forwards, expected 3"):
        adapt("0F0,0F1\n1F0,1F1\n", microbatches=3)


def test_form_can_be_insisted_on() -> None:
    """form= refuses a schedule of the other form."""
    with pytest.raises(PlanError, match="compute_only"):
        adapt("0F0\n1F0\n", form="compute_comms")
    with pytest.raises(PlanError, match="compute_comms"):
        adapt("0F0,0SEND_F0\n1RECV_F0,1F0\n", form="compute_only")


def test_adapter_recognizes_schedules_and_nothing_else(tmp_path: Path) -> None:
    """The adapter recognizes CSV schedules of both forms, by content, and orders in memory."""
    assert len(SAMPLES) == 36
    assert all(adapter.sniff(path) and adapter.sniff(path.read_bytes()) for path in SAMPLES)
    assert adapter.sniff({0: ["0F0", None], 1: ["1F0"]})
    other = tmp_path / "table.csv"
    other.write_text("name,value\nalpha,1\n")
    for thing in (other, tmp_path, tmp_path / "none.csv", b"", b"{}", b'{"schema": "x"}', {}, [],
                  None, 3, {"a": []}, {0: "0F0"}, {0: [3]}, object()):  # fmt: skip
        assert not adapter.sniff(thing), thing


def test_damaged_samples_never_raise_anything_but_plan_error() -> None:
    """Flipped, cut and repeated bytes of real schedules give a plan or a PlanError."""
    rng = random.Random(20260701)
    outcomes = {True: 0, False: 0}
    for path in [path for path in SAMPLES if "2x4" in path.name]:
        data = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(damaged))
                damaged[at : at + rng.choice([0, 1, 1, 5])] = rng.choice(
                    [b"", b"\x00", b"\xff", b",", b"9", b"F", b"\n", b'"', bytes(damaged[:9])]
                )
            try:
                adapter.adapt(bytes(damaged), PlanBuilder)
                outcomes[True] += 1
            except PlanError:
                outcomes[False] += 1
    assert min(outcomes.values()) > 10


def test_hostile_numbers_are_cheap() -> None:
    """A stage number of a million digits is refused without converting it."""
    error = refused("9" * 100_000 + "F0\n")
    assert "too large" in str(error)
    assert len(str(error)) < 1000


def test_order_keeps_every_cell_with_its_place() -> None:
    """Row and column of every cell are kept, bubbles counted."""
    order = parse_csv(b"0F0,,0B0\n,1F0\n", "x.csv")
    places = [(str(cell.action), cell.rank, cell.column) for cell in order.cells()]
    assert places == [("0F0", 0, 0), ("0B0", 0, 2), ("1F0", 1, 1)]
