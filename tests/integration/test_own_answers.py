"""What one rank knows alone (its sets, clock, files, dice) decides nothing unseen.

Each pair is a program that hangs, or may hang, on real ranks, and one that agrees first.
"""

# ruff: noqa: D103, NPY002, DTZ005, DTZ011, PLC0208, PTH116, PTH204, PTH208, PTH123, SIM115 - programs as people write them
from __future__ import annotations

import asyncio
import os
import platform
import random
import shutil
import socket
import sys
import time
from datetime import date, datetime
from pathlib import Path
from time import monotonic
from types import ModuleType

import numpy as np
import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.play import further, odd_plays  # noqa: E402 - same

pytestmark = pytest.mark.wheel

NAMES = ["layer0", "layer1", "layer2", "layer3"]
HERE = Path(__file__)
SAVED: list[Path] = []


@pytest.fixture(autouse=True, scope="module")
def saved(tmp_path_factory):
    """A checkpoint that is there."""
    SAVED.append(tmp_path_factory.mktemp("saved") / "last.pt")
    torch.save({"step": 1}, SAVED[0])


@pytest.fixture(autouse=True)
def nobody_chose_a_seed():
    """Whoever ran before in this process may have: then dice are the same on every rank.

    Python's fall so that no job of this file meets its rare case by itself, which would be found.
    """
    torch.seed()
    random.setstate(random.Random(0).getstate())


def decide(job, world=2, **options):
    """Play a job and give its verdict."""
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0, **options).run(job)


def reduce(name):
    """Communicate something whose size tells which layer it was."""
    dist.all_reduce(torch.ones(int(name[-1]) + 1))


def names():
    """Give a set: the source of a caller does not show that it is one."""
    return set(NAMES)


def each_name():
    """Give the elements of a set one by one."""
    yield from names()


class Holder:
    """Holds names in an order that somebody else took from a set."""

    def __init__(self):
        self.names = list(names())
        self.starred = ["first", *names()]


def by_function():
    for name in names():
        reduce(name)


def by_generator():
    for name in each_name():
        reduce(name)


def by_pop():
    left = names()
    while left:
        reduce(left.pop())


def by_map():
    list(map(reduce, names()))


def by_first():
    reduce(next(iter(names())))


def by_list_made_elsewhere():
    for name in Holder().names:
        reduce(name)


def by_star_made_elsewhere():
    for name in Holder().starred[1:]:
        reduce(name)


def by_dictionary_made_elsewhere():
    for name in dict.fromkeys(names()):
        reduce(name)


def by_hash():
    if hash("text") % 2:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


SETS = [
    by_function, by_generator, by_pop, by_map, by_first, by_list_made_elsewhere,
    by_star_made_elsewhere, by_dictionary_made_elsewhere, by_hash,
]  # fmt: skip


@pytest.mark.parametrize("job", SETS, ids=lambda job: job.__name__)
def test_the_order_of_a_set_is_every_ranks_own(job):
    """Real ranks hash text with a seed each: unsafe, and the ledger names the line of the walk."""
    verdict = decide(job)
    assert verdict.unsafe
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert said
    assert HERE.name in said[0]


LETTERS = {"alpha", "beta", "gamma", "delta"}


def ends_here(letters):
    """Return the first and the last of the order that this process has."""
    walked = list(letters)
    return {walked[0], walked[-1]}


ENDS = ends_here(LETTERS)
"""The other way round it is the same. By a function: a plain expression is asked again by ranks."""


def by_one_of_the_middle():
    for _ in range(1 if next(iter(LETTERS)) in ENDS else 2):
        dist.all_reduce(torch.ones(2))


def by_agreed_one_of_the_middle():
    first = [next(iter(LETTERS))]
    dist.broadcast_object_list(first, 0)
    for _ in range(1 if first[0] in ENDS else 2):
        dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("world", [2, 4])
def test_each_element_of_a_small_set_comes_first(world):
    """The ends of a set lead alike here, and the other elements do not: unsafe on real ranks."""
    verdict = decide(by_one_of_the_middle, world)
    assert verdict.unsafe
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert HERE.name in said[0]
    assert decide(by_agreed_one_of_the_middle, world).safe


def by_clock_alone():
    time.time()
    dist.all_reduce(torch.ones(1))


def test_what_was_answered_otherwise_and_changed_nothing_is_told():
    """A program that is SAFE whatever the clock says: the ledger says that it was asked."""
    verdict = decide(by_clock_alone)
    assert verdict.safe
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert said
    assert HERE.name in said[0]


def by_sorted():
    for name in sorted(names()):
        reduce(name)


def by_broadcast():
    given = [list(names())]
    dist.broadcast_object_list(given, 0)
    for name in given[0]:
        reduce(name)


def by_numbers():
    for size in {3, 1, 2}:
        dist.all_reduce(torch.ones(size))


def by_made_numbers():
    sizes = list({len(name) + place for place, name in enumerate(NAMES)})
    for size in [*sizes, *set(np.array([3, 1, 2])), *{one.shape for one in (torch.ones(2, 2),)}]:
        dist.all_reduce(torch.ones(size))
    if hash(np.int64(3)) % 2:
        dist.barrier()
    for size in {place for place, _ in enumerate(NAMES, 1)} - {2}:
        dist.all_reduce(torch.ones(size))


def by_membership():
    wanted = names()
    for name in NAMES:
        if name in wanted:
            reduce(name)
    print(wanted)


@pytest.mark.parametrize(
    "job", [by_sorted, by_broadcast, by_numbers, by_made_numbers, by_membership]
)
def test_an_order_that_is_agreed_is_right(job):
    """Sorted, broadcast, of numbers, or asked for members only."""
    assert decide(job).outcome is Outcome.SAFE


def by_clock():
    start = time.time()
    dist.all_reduce(torch.ones(2))
    if time.time() - start > 3600:  # what a checkpoint every hour asks
        dist.barrier()


def by_imported_clock():
    start = monotonic()
    dist.all_reduce(torch.ones(2))
    if monotonic() - start > 3600:
        dist.barrier()


def by_date():
    start = datetime.now()
    dist.all_reduce(torch.ones(2))
    if (datetime.now() - start).days:
        dist.barrier()


def by_folder():
    dist.all_reduce(torch.ones(2))
    for name in os.listdir(HERE.parent)[:2]:
        dist.all_reduce(torch.ones(len(name)))


def by_sorted_folder():
    for name in sorted(os.listdir(HERE.parent))[:2]:  # one order, of what another node lacks
        dist.all_reduce(torch.ones(len(name)))


def by_glob():
    dist.all_reduce(torch.ones(2))
    first = next(iter(HERE.parent.glob("*.py")))
    dist.all_reduce(torch.ones(len(first.name)))


def by_file():
    dist.all_reduce(torch.ones(2))
    if Path("checkpoint-that-is-nowhere").exists():
        dist.barrier()


def by_snapshot():
    first = 0
    if Path("snapshot-that-is-nowhere").exists():
        first = int(Path("snapshot-that-is-nowhere").read_text())
    for _ in range(first, 3):
        dist.all_reduce(torch.ones(2))


def by_dice():
    dist.all_reduce(torch.ones(2))
    for _ in range(24):
        if random.random() < 0.5:
            dist.barrier()


def by_coin():
    if random.random() < 0.5:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_rank_0s_coin():
    if dist.get_rank() == 0 and random.randint(1, 100) <= 2:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_numpys_choice():
    random.seed(3)  # it is not NumPy's
    if np.random.choice(["text", "image"]) == "image":
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_system_seed():
    random.seed(3)
    random.seed()
    if random.random() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_numpys_system_seed():
    np.random.seed(None)
    if np.random.rand() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_own_state():
    if np.random.RandomState().rand() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_process_seed():
    random.seed(os.getpid())
    if random.random() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_seed_of_now():
    np.random.seed(int(time.time()))
    if np.random.rand() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_torchs_system_seed():
    torch.manual_seed(3)
    torch.seed()
    if torch.rand(()).item() < 1e-6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_exit_code():
    if os.system("test -d /") == 0:  # noqa: S605 - a program as people write them
        dist.barrier()


def by_piped_words():
    with os.popen("echo 2") as told:  # noqa: S605 - same
        for _ in range(int(told.read())):
            dist.all_reduce(torch.ones(2))


def by_torchs_coin():
    if torch.rand(1).item() > 0.999:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_host():
    dist.all_reduce(torch.ones(2))
    dist.all_reduce(torch.ones(len(socket.gethostname())))


def by_node():
    dist.all_reduce(torch.ones(2))
    dist.all_reduce(torch.ones(len(os.uname().nodename) + len(platform.node())))


def by_size():
    dist.all_reduce(torch.ones(HERE.stat().st_size))


def by_time():
    dist.all_reduce(torch.ones(2))
    if time.time() - os.path.getmtime(HERE) > 3600:  # stale
        dist.barrier()


def by_fresh():
    dist.all_reduce(torch.ones(2))
    if os.path.getmtime("/") > time.time() - 10**7:  # of this quarter, or never
        dist.barrier()


def by_nanoseconds():
    dist.all_reduce(torch.ones(2))
    if os.stat(HERE).st_mtime_ns < time.time_ns() - 3600 * 10**9:
        dist.barrier()


def by_last_written():
    newest = max((HERE, Path(torch.__file__)), key=os.path.getmtime)
    dist.all_reduce(torch.ones(1 + (newest == HERE)))


def by_address():
    tensors = [torch.ones(size) for size in (1, 2, 3)]
    for tensor in sorted(tensors, key=id):
        dist.all_reduce(tensor)


def by_listed_addresses():
    tensors = [torch.ones(size) for size in (1, 2, 3)]
    for _, tensor in sorted(zip(list(map(id, tensors)), tensors, strict=True)):
        dist.all_reduce(tensor)


def by_minute():
    if datetime.now().minute == 0:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_night():
    now = datetime.now()
    if now.hour == 3 and now.minute == 30:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_sunday():
    if time.localtime().tm_wday == 6:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_seconds_of_the_hour():
    for _ in range(3):
        if int(time.time()) % 3600 < 10:
            dist.barrier()
        dist.all_reduce(torch.ones(2))


def this_minute():
    return int(time.strftime("%M"))


def by_a_helpers_minute():
    if this_minute() in (17, 47):
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_first_of_the_month():
    if date.today().day == 1:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_loops_time():
    async def work():
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(3):
            await asyncio.sleep(0)
            if loop.time() - start > 600:
                break
            dist.all_reduce(torch.ones(2))
        dist.barrier()

    asyncio.run(work())


def by_opening():
    try:
        with open("resume-that-is-nowhere.json") as file:
            file.read()
        dist.barrier()
    except FileNotFoundError:
        pass
    dist.all_reduce(torch.ones(2))


def by_loading():
    start = 0
    try:
        start = int(torch.load(SAVED[0])["step"])
    except FileNotFoundError:
        print("from the beginning")
    for _ in range(start, 3):
        dist.all_reduce(torch.ones(2))


def by_access():
    if os.access("checkpoint-that-is-nowhere", os.R_OK):
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_room_on_disk():
    if shutil.disk_usage("/").free > 10**9:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


MOMENTS = [
    by_minute, by_night, by_sunday, by_seconds_of_the_hour, by_a_helpers_minute,
    by_first_of_the_month, by_loops_time,
]  # fmt: skip
FILES = [by_opening, by_loading, by_access, by_room_on_disk]


@pytest.mark.parametrize("job", [*MOMENTS, *FILES], ids=lambda job: job.__name__)
def test_an_hour_or_a_file_of_one_rank_is_not_decided(job):
    """What a day later is the same: an hour, a remainder; and files that are opened: UNKNOWN."""
    verdict = decide(job)
    assert verdict.unknown
    assert f"{HERE.name}:" in " ".join(verdict.reasons)


def test_of_a_large_program_what_ran_is_read(monkeypatch):
    """Other modules of the process are not, nor are they searched for what a clock decides."""
    read = []
    monkeypatch.setattr(odd_plays, "READ_WHOLE", 0)
    found = further.moments
    monkeypatch.setattr(further, "moments", lambda *given: read.append(given[0]) or found(*given))
    unrelated = ModuleType("unrelated")
    unrelated.__file__ = __file__.replace("test_own_answers", "test_untold")
    monkeypatch.setitem(sys.modules, "unrelated", unrelated)
    assert decide(by_a_helpers_minute).unknown
    assert read[0][0] == __file__
    assert unrelated.__file__ not in read[0]


def by_agreed_minute():
    given = [datetime.now().minute % 15 == 0]
    dist.broadcast_object_list(given, 0)
    if given[0]:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_named_folder():
    name = f"run-{datetime.now():%Y%m%d}-{time.strftime('%H%M')}-{int(time.time()) % 100}"
    dist.all_reduce(torch.ones(2))
    print(name)


def by_states_that_are_told():
    assert isinstance(np.random.mtrand._rand, np.random.RandomState)
    if np.random.RandomState(3).rand() < 0.9:
        dist.barrier()
    random.seed(1234)
    if random.random() < 0.9:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_needed_file():
    config = open(HERE).read(1)
    dist.all_reduce(torch.ones(len(config)))


def by_caught_and_raised_file():
    try:
        text = HERE.read_text()
    except FileNotFoundError as error:
        raise SystemExit("no configuration") from error
    dist.all_reduce(torch.ones(len(text) and 1))


def by_waiting_in_a_loop():
    async def work():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_at(loop.time() + 0.01, done.set_result, 1)
        async with asyncio.timeout_at(loop.time() + 30):
            await done
        dist.all_reduce(torch.ones(2))

    asyncio.run(work())


@pytest.mark.parametrize(
    "job",
    [
        by_agreed_minute,
        by_named_folder,
        by_needed_file,
        by_states_that_are_told,
        by_caught_and_raised_file,
        by_waiting_in_a_loop,
    ],
    ids=lambda job: job.__name__,
)
def test_an_hour_that_is_agreed_and_a_file_that_must_be_there_are_right(job):
    """Broadcast, a name of a folder, a file without which the job ends, a timer: SAFE."""
    assert decide(job).outcome is Outcome.SAFE


def test_the_moments_that_were_shown_are_told():
    """The ledger names them, so that nobody takes them for all."""
    verdict = decide(by_agreed_minute)
    said = " ".join(one.message for one in verdict.approximations if one.kind == "own-answers")
    assert "12-31 23:59:59" in said


DOUBTED = [
    by_clock, by_imported_clock, by_date, by_folder, by_glob, by_file, by_snapshot, by_dice,
    by_sorted_folder, by_coin, by_rank_0s_coin, by_numpys_choice, by_torchs_coin,
    by_system_seed, by_numpys_system_seed, by_torchs_system_seed, by_own_state, by_process_seed,
    by_seed_of_now, by_exit_code, by_piped_words,
    by_host, by_node, by_size, by_time, by_fresh,
    by_nanoseconds, by_last_written,
]  # fmt: skip


@pytest.mark.parametrize("job", DOUBTED, ids=lambda job: job.__name__)
def test_what_may_differ_between_ranks_is_not_decided(job):
    """One rank's hour is over, its folder is in another order, its file is not there: UNKNOWN."""
    verdict = decide(job)
    assert verdict.unknown
    assert f"{HERE.name}:" in " ".join(verdict.reasons)


@pytest.mark.parametrize("job", [by_address, by_listed_addresses], ids=lambda job: job.__name__)
def test_the_address_of_an_object_is_every_ranks_own(job):
    """Tensors sorted by `id`: played ranks may have them in one order, or not, as real ones.

    The program asks, also where a function of the interpreter calls `id` for it.
    """
    assert not decide(job).safe


def by_agreed_clock():
    start = time.time()
    while True:
        over = torch.tensor([float(time.time() - start > 0.02)])
        dist.all_reduce(over, dist.ReduceOp.MAX)
        if over.item():
            break


def by_logged_clock():
    start = time.time()
    dist.all_reduce(torch.ones(2))
    if time.time() - start > 0.0:
        print(f"{time.time() - start:.3f} s", datetime.now(), random.random())
    dist.barrier()


def by_deadline():
    start = time.time()
    dist.all_reduce(torch.ones(2))
    if time.time() - start > 3600:
        raise TimeoutError("too slow")
    dist.barrier()


def by_seeded_dice():
    random.seed(7)
    torch.manual_seed(7)
    for _ in range(4):
        if random.random() < 0.5 or torch.rand(1).item() < 0.5:
            dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_agreed_coin():
    coin = torch.rand(1)
    dist.broadcast(coin, 0)
    if coin.item() < 0.5:
        dist.barrier()
    np.random.seed(1)
    torch.manual_seed(1)
    if np.random.normal() < 0.5 or torch.randint(0, 2, (1,)).item():
        dist.barrier()
    dist.all_reduce(torch.ones(2))
    print(random.gauss(0, 1), random.shuffle([1, 2, 3]))


def by_agreed_folder():
    given = [sorted(os.listdir(HERE.parent))[:2]]
    dist.broadcast_object_list(given, 0)
    for name in given[0]:
        dist.all_reduce(torch.ones(len(name)))
    if Path("cache-that-is-nowhere").exists():
        print("cached")


def by_gathered_host():
    hosts = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, socket.gethostname())
    groups = [
        dist.new_group([r for r, one in enumerate(hosts) if one == h]) for h in sorted({*hosts})
    ]
    dist.all_reduce(torch.ones(2), group=groups[sorted({*hosts}).index(hosts[dist.get_rank()])])


def by_known_address():
    kept = [torch.ones(size) for size in (1, 2, 3)]
    known = {id(one): one for one in kept}
    for one in kept:
        dist.all_reduce(known[id(one)])
    print(platform.node(), HERE.stat().st_mtime)


AGREED = [
    by_agreed_clock, by_logged_clock, by_deadline, by_seeded_dice, by_agreed_coin, by_agreed_folder,
    by_gathered_host, by_known_address,
]  # fmt: skip


@pytest.mark.parametrize("job", AGREED, ids=lambda job: job.__name__)
def test_what_is_agreed_or_only_shown_is_right(job):
    """A reduced flag, a log line, a deadline that ends the job, a seed: SAFE."""
    assert decide(job).outcome is Outcome.SAFE


def test_environment_variables_are_assumed_to_be_one(monkeypatch):
    """The ledger names what the program reads, not what a launcher tells each rank."""
    monkeypatch.setenv("JOB_KIND", "long")

    def job():
        if os.environ["JOB_KIND"] == "long" and os.getenv("JOB_ASKS") != "no":
            dist.all_reduce(torch.ones(1 + 0 * int(os.environ["RANK"])))

    verdict = decide(job)
    assert verdict.safe
    (said,) = [one.message for one in verdict.approximations if "environment var" in one.message]
    assert f"JOB_KIND ({HERE}:" in said
    assert "JOB_ASKS" in said
    assert "RANK" not in said


def test_dice_of_torch_are_every_ranks_own():
    """A layer that is dropped by chance is dropped on one rank only, where nobody set a seed."""

    def job():
        for _ in range(16):
            if torch.rand(1).item() < 0.5:
                dist.barrier()
        dist.all_reduce(torch.ones(2))

    assert decide(job).unsafe


def test_random_states_of_the_caller_stay_as_they_are():
    """A block is played in the caller's process, and leaves its dice alone."""
    states = random.getstate(), torch.get_rng_state()
    with precheck(2):
        torch.rand(4)
        random.random()
        dist.all_reduce(torch.ones(2))
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])


def test_a_block_is_played_again_as_a_call_is():
    """The body of a block that walks a set is decided by the same plays."""
    with precheck(2, on_unsafe="return") as check:
        for name in names():
            reduce(name)
    assert check.verdict.unsafe
    with precheck(2, on_unsafe="return") as check:
        for name in sorted(names()):
            reduce(name)
    assert check.verdict.safe


def test_ranks_of_a_subgroup_differ_too():
    """The odd ranks are chosen so that every group has some of them, whatever its members."""

    def job():
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        for name in names():
            dist.all_reduce(torch.ones(int(name[-1]) + 1), group=groups[dist.get_rank() % 2])

    def far():
        group = dist.new_group([0, 3])  # both have an even number of bits
        if dist.get_rank() in (0, 3):
            for name in names():
                dist.all_reduce(torch.ones(int(name[-1]) + 1), group=group)

    assert decide(job, world=4).unsafe
    assert decide(far, world=4).unsafe


def test_a_few_ranks_stand_for_many_here_too():
    """Where one rank of each kind is played, every second of those is answered otherwise."""

    def step():
        for name in names():
            reduce(name)

    def right():
        start = time.time()
        for name in sorted(names()):
            reduce(name)
        print(time.time() - start)

    check = precheck(32, model="gloo", on_unsafe="return")
    assert check.run(right).safe
    assert check.played < 32
    assert decide(step, world=32).unsafe


def test_samples_are_decided_with_other_answers_as_well():
    """A step that takes samples and walks a set is unsafe for equal samples, too."""

    def step(sample):
        for name in set(sample):
            reduce(name)

    def right(sample):
        for name in sorted(set(sample)):
            reduce(name)

    assert decide(step, samples=[NAMES]).unsafe
    assert decide(right, samples=[NAMES]).safe


def test_a_function_without_questions_is_played_once():
    """Nothing is asked, nothing is played again, and nothing is said."""
    verdict = decide(lambda: dist.all_reduce(torch.ones(2)))
    assert verdict.safe
    assert not [one for one in verdict.approximations if one.kind == "own-answers"]
