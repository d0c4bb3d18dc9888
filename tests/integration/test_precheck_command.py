"""``planguard precheck``: scripts nobody wrote for it, right and broken, from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = [pytest.mark.wheel, pytest.mark.processes, pytest.mark.timeout(300)]

SCRIPT = """
import argparse, os, sys
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--way", default="right")
parser.add_argument("--rows", type=int, default=12)
args = parser.parse_args()
dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert rank == dist.get_rank() and world == dist.get_world_size()
assert os.environ["MASTER_ADDR"] and os.environ["MASTER_PORT"]
assert int(os.environ["LOCAL_WORLD_SIZE"]) <= world
assert __name__ == "__main__" and sys.argv[0].endswith("train.py")
images = torch.arange(args.rows) % 12 >= 8
train = DataLoader(TensorDataset(images), batch_size=4)
held = DataLoader(TensorDataset(images[:4]), batch_size=4)
print("the script talks")
for (batch,) in train:
    has_image = batch.any().float()
    if args.way == "agree":
        dist.all_reduce(has_image, dist.ReduceOp.MAX)
    if args.way in ("agree", "alone") and has_image.item():
        dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(1))
for _ in held:
    dist.all_reduce(torch.ones(2))
if args.way == "mode" and os.environ.get("MODE") == "save" or args.way == "raise":
    raise RuntimeError("no space")
if args.way == "nan" and rank == 1:
    raise FloatingPointError("loss is nan")
if args.way == "nan":
    dist.barrier()
"""


FORGOTTEN = """\
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(3)
work = dist.all_reduce(total, async_op=True)
print(total.sum().item())
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the script."""
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def planguard(folder, *words, ranks=2, **more):
    """Run the command in the folder."""
    command = [sys.executable, "-W", "ignore", "-m", "planguard", "precheck", "train.py"]
    return subprocess.run(
        [*command, "--ranks", str(ranks), *words],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        **more,
    )


def outcome(done):
    """Return exit code and outcome of a run with --format json."""
    return done.returncode, json.loads(done.stdout)["outcome"]


def test_a_script_is_decided_as_it_stands(folder):
    """It runs as the main program with torchrun's variables; nothing of it is on stdout."""
    done = planguard(folder, "--nodes", "2", "--format", "json")
    assert outcome(done) == (0, "SAFE"), done.stderr
    assert "the script talks" not in done.stdout
    done = planguard(folder, "--", "--way", "nan")  # rank 0 waits for one that has raised
    assert done.returncode == 1
    assert "rank 1" in done.stdout


def test_a_handle_that_nobody_waits_for_is_the_scripts_own(tmp_path):
    """A mode of torch's follows every function of a script; what it passes on is not torch's."""
    (tmp_path / "train.py").write_text(FORGOTTEN)
    done = planguard(tmp_path, "--format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["findings"]
    assert [(one["code"], one["primary"]["rank"]) for one in found] == [("PG301", 0), ("PG301", 1)]


def test_samples_are_batches_on_any_rank(folder):
    """Batch 2 has an image: a rank that meets it while the other does not is found, and agreed."""
    alone = ("--", "--way", "alone")
    assert outcome(planguard(folder, "--format", "json", *alone)) == (0, "SAFE")
    done = planguard(folder, "--samples", "3", *alone)
    assert done.returncode == 1
    text = " ".join(done.stdout.split()).replace("| ", "")
    line = SCRIPT.splitlines().index('    if args.way in ("agree", "alone") and has_image.item():')
    assert f"train.py:{line + 1}" in text
    assert "of its loaders, all the time" in text
    agreed = planguard(folder, "--samples", "3", "--format", "json", "--", "--way", "agree")
    assert outcome(agreed) == (0, "SAFE"), agreed.stderr


def test_steps_per_rank_cut_and_repeat_loaders(folder):
    """Declared numbers of batches hold for every loader, or for the one made at a line."""
    done = planguard(folder, "--steps-per-rank", "5,4")
    assert done.returncode == 1
    line = SCRIPT.splitlines().index("for (batch,) in train:") + 1
    said = " ".join(done.stdout.split()).replace("| ", "").replace("= ", "")
    assert "rank 1's loader ends after 4 batches" in said
    assert f"train.py:{line}" in said
    assert outcome(planguard(folder, "--format", "json", "--steps-per-rank", "5,5")) == (0, "SAFE")
    made = SCRIPT.splitlines().index("held = DataLoader(TensorDataset(images[:4]), batch_size=4)")
    one = planguard(folder, "--lengths", f"train.py:{made + 1}=1,2")
    assert one.returncode == 1
    assert f"train.py:{made + 1}" in " ".join(one.stdout.split())


def test_an_environment_variable_differs_between_ranks(folder):
    """A failure of the script itself is exit 2, with its line and what the rank had."""
    done = planguard(folder, "--set", "MODE=train,save", "--", "--way", "mode")
    assert done.returncode == 2
    assert "no space" in done.stderr
    assert "train.py:" in done.stderr
    assert "MODE=save" in done.stderr
    assert "planguard/" not in done.stderr.replace(str(folder), "")  # only the script's frames


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--steps-per-rank", "1,2,3"), "3 lengths for 2 ranks"),
        (("--steps-per-rank", "1,x"), "no list such as 10,9"),
        (("--steps-per-rank", "1,2", "--lengths", "1"), "exclude each other"),
        (("--set", "MODE"), "is not NAME=A,B"),
        (("--samples", "0"), "at least one"),
        (("--nodes", "3"), "2 ranks on 3 nodes"),
        (("--lengths", "other.py:3=1,2"), "no DataLoader was made at other.py:3"),
        (("--sampels", "3"), "no option --sampels"),
        (("--", "--way"), "SystemExit"),
    ],
)
def test_what_cannot_be_is_refused(folder, words, said):
    """One clear error on stderr, exit 2, nothing on stdout."""
    done = planguard(folder, *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert done.stdout == ""


def test_samples_that_vary_nothing_are_refused(tmp_path):
    """A script without a loader is not called safe for any data."""
    (tmp_path / "train.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\ndist.all_reduce(torch.ones(1))\n"
    )
    done = planguard(tmp_path, "--samples", "2")
    assert done.returncode == 2
    assert "walks no torch DataLoader" in done.stderr
    assert planguard(tmp_path).returncode == 0


def test_every_format_is_written_and_the_gate_holds(folder):
    """The formats of check, to files and to stdout, with the same exit code."""
    words = [
        word
        for name in ("sarif", "junit", "jsonl", "github", "json")
        for word in ("-o", f"{name}=out.{name}")
    ]
    done = planguard(folder, *words, "--steps-per-rank", "5,4")
    assert done.returncode == 1
    for name in ("sarif", "junit", "jsonl", "github", "json"):
        text = (folder / f"out.{name}").read_text()
        assert "train.py" in text, name
    assert json.loads((folder / "out.sarif").read_text())["runs"][0]["results"]
    again = planguard(folder, "--exit-zero", "--steps-per-rank", "5,4")
    assert again.returncode == 0


SNAPSHOT = """\
import posix, random
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    with open("plays", "a") as file:
        found = posix.access("snapshot.pt", 0)  # what no play answers otherwise
        file.write(f"{found}\\n")
data = random.random()
for epoch in range(4):
    dist.all_reduce(torch.full((4,), data))
    if rank == 0:
        torch.save(epoch, "snapshot.pt")
        with open("log.txt", "a") as file:
            file.write("epoch\\n")
"""


def test_what_one_play_writes_does_not_decide_the_next(folder):
    """A snapshot that a play leaves is put back before the next, so that no play finds one; what
    was written in front of all communication stays.
    """
    (folder / "train.py").write_text(SNAPSHOT)
    (folder / "log.txt").write_text("mine\n")
    done = planguard(folder, "--format", "json")
    assert outcome(done) == (0, "SAFE"), done.stdout
    found = (folder / "plays").read_text().split()
    assert len(found) > 1
    assert set(found) == {"False"}
    assert (folder / "log.txt").read_text().splitlines() == ["mine", *["epoch"] * 4]
    assert (folder / "snapshot.pt").exists()


EXITS = """\
import sys
import torch, torch.distributed as dist

def main():
    if torch.cuda.device_count() < 64:
        print("Unable to locate sufficient 64 gpus to run this example. Exiting.")
        END
    dist.init_process_group("gloo")
    dist.barrier()

main()
"""


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("exit()", "on ranks 0 and 1 it exited with status 0 at {}:7 in main"),
        ("sys.exit(0)", "on ranks 0 and 1 it exited with status 0 at {}:7 in main"),
        ("return", "on ranks 0 and 1 it came to its end (train.py)"),
    ],
)
def test_a_script_that_ends_by_itself_says_where_and_why(folder, end, how):
    """Nothing was communicated: undecided, with its exit, its last line and what to do."""
    (folder / "train.py").write_text(EXITS.replace("END", end))
    done = planguard(folder)
    assert done.returncode == 3, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "the program ended by itself before any communication" in said
    assert how.format(folder / "train.py") in said
    assert "'Unable to locate sufficient 64 gpus to run this example. Exiting.'" in said
    assert "let the program go on where it ended" in said
    assert "adapter" not in said


DEVICE = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

if not (torch.accelerator.is_available() and torch.accelerator.device_count() >= 2):
    print("too few GPUs")
    sys.exit()
kind = torch.accelerator.current_accelerator()
dist.init_process_group(torch.distributed.get_default_backend_for_device(kind))
mesh = init_device_mesh(kind.type, (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)).to(kind)
plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
model = parallelize_module(model, mesh, plan)
model(torch.ones(2, 4, device=kind)).sum().backward()
if "--bug" in sys.argv and dist.get_rank() == 0:
    dist.barrier()
"""


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--", "--bug"), 1)])
def test_a_script_that_wants_a_gpu_is_told_of_one(tmp_path, words, code):
    """It ends where there is none, and is played on the CPU all the same; the ledger says so."""
    (tmp_path / "train.py").write_text(DEVICE)
    done = planguard(tmp_path, *words)
    assert done.returncode == code, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "model nccl" in said
    if not code:
        assert "asks whether there is a GPU (" in said
        assert "train.py:6) and ends where there is none" in said


ASKS = """
import torch, torch.distributed as dist
dist.init_process_group({backend})
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if torch.cuda.is_available():
    {there}
    if {who}:
        dist.all_reduce(torch.ones(2, device=device))
dist.barrier()
"""
CHOOSES = '"nccl" if torch.cuda.is_available() else "gloo"'
BROKEN = "torch.cuda.no_such_function()"


@pytest.mark.parametrize(
    ("backend", "there", "who", "code", "said"),
    [
        ('"nccl"', "pass", "dist.get_rank() == 0", 1, "MISMATCH"),
        (CHOOSES, "pass", "dist.get_rank() == 0", 1, "MISMATCH"),
        (CHOOSES, "pass", "True", 0, "told that each rank has one"),
        ('"nccl"', BROKEN, "True", 3, "train.py:4) and fails here if it is told of one"),
        ('"gloo"', BROKEN, "True", 0, "it was told that there is none"),
    ],
)
def test_what_a_script_does_with_a_gpu_is_played(tmp_path, backend, there, who, code, said):
    """The job has GPUs unless it is one of gloo: what it says behind such a question decides. What
    cannot be played on the CPU is UNKNOWN, with the line, and never SAFE.
    """
    text = ASKS.format(backend=backend, there=there, who=who)
    (tmp_path / "train.py").write_text(text)
    done = planguard(tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split())


def test_a_script_that_exits_with_an_error_shows_its_last_line(folder):
    """An exit status that is none of success is an error, with what was printed in front of it."""
    (folder / "train.py").write_text(EXITS.replace("END", "sys.exit(3)"))
    done = planguard(folder)
    assert done.returncode == 2
    assert "SystemExit: 3" in done.stderr
    assert "the last line that it printed: Unable to locate sufficient 64 gpus" in done.stderr


def test_an_interrupt_leaves_nothing_behind(folder):
    """Ctrl-C ends the ranks and their workers, exit 130."""
    text = SCRIPT + "import time\nopen('begun', 'w').close()\ntime.sleep(600)\n"
    (folder / "train.py").write_text(text)
    mark = f"PLANGUARD_TEST_MARK={os.getpid()}"
    environment = {**os.environ, "PLANGUARD_TEST_MARK": str(os.getpid())}
    command = [sys.executable, "-m", "planguard", "precheck", "train.py", "--ranks", "2"]
    job = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    end = time.monotonic() + 120
    while not (folder / "begun").exists() and time.monotonic() < end:
        time.sleep(0.1)
    os.killpg(job.pid, signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 130, said
    time.sleep(0.5)
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    left.append(entry)
    assert not left


def test_fix_shows_a_proved_patch_and_writes_it_beside(folder):
    """--fix edits nothing; --patch writes a diff that git applies; what it gives is SAFE."""
    words = ("--samples", "3", "--fix", "--patch", "fix.diff", "--format", "json")
    done = planguard(folder, *words, "--", "--way", "alone")
    assert done.returncode == 1, done.stderr
    (repair,) = json.loads(done.stdout)["findings"][0]["fixes"]
    assert repair["applicability"] == "verified"
    assert repair["patch"] == (folder / "fix.diff").read_text()
    assert "was not compared" in repair["text"]  # a script returns nothing
    assert (folder / "train.py").read_text() == SCRIPT
    assert "git apply fix.diff" in done.stderr
    again = planguard(folder, *words, "--force", "--", "--way", "alone")
    assert again.returncode == 2
    assert "not written over" in again.stderr
    subprocess.run(["git", "apply", "fix.diff"], cwd=folder, check=True, timeout=60)
    done = planguard(folder, "--samples", "3", "--format", "json", "--", "--way", "alone")
    assert outcome(done) == (0, "SAFE"), done.stderr


def test_fix_edits_a_module_that_the_script_imports(tmp_path):
    """The patch names the file of the decision, cached bytecode or not."""
    (tmp_path / "train.py").write_text(
        "import os\n"
        "import torch.distributed as dist\n"
        "from saving import save\n"
        "dist.init_process_group('gloo')\n"
        "save(os.environ['MODE'])\n"
        "dist.barrier()\n"
    )
    text = (
        "import torch\n"
        "import torch.distributed as dist\n\n\n"
        "def save(mode):\n"
        "    if mode == 'save':\n"
        "        dist.all_reduce(torch.ones(1))\n"
    )
    (tmp_path / "saving.py").write_text(text)
    command = [sys.executable, "-c", "import py_compile; py_compile.compile('saving.py')"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    done = planguard(tmp_path, "--set", "MODE=save,go", "--fix")
    assert done.returncode == 1
    assert "+++ b/saving.py" in done.stdout
    assert "is SAFE" in done.stdout
    assert (tmp_path / "saving.py").read_text() == text
    assert "--patch FILE" in done.stderr


def test_fix_says_why_there_is_no_patch(folder):
    """A safe script needs none; a finding without a proved edit says what was tried, or why not."""
    done = planguard(folder, "--fix")
    assert done.returncode == 0
    assert "no patch (the script is SAFE)" in done.stderr
    done = planguard(folder, "--fix", "--format", "json", "--", "--way", "nan")
    assert done.returncode == 1
    (finding, *_) = json.loads(done.stdout)["findings"]
    assert not finding["fixes"]
    assert any("no patch of the source was proved: " in note for note in finding["notes"])
    assert "the finding says why" in done.stderr


def test_a_patch_without_fix_is_refused(folder):
    """One error, before anything is played."""
    done = planguard(folder, "--patch", "fix.diff")
    assert done.returncode == 2
    assert done.stderr.count("error") == 1
    assert "--fix --patch fix.diff" in done.stderr


NEIGHBORS = """\
import argparse
import torch, torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
backend = parser.parse_args().backend
dist.init_process_group({backend})
other = 1 - dist.get_rank()
sent = dist.isend(torch.ones(4), other)  # some keep it, others hold up a queue
dist.recv(torch.ones(4), other)
sent.wait()
"""


@pytest.mark.parametrize(
    ("backend", "options", "model", "found"),
    [
        ('"gloo"', (), "gloo", "SAFE"),
        ("backend", (), "gloo", "SAFE"),
        ('"gloo"', ("--model", "nccl"), "nccl", "DEADLOCK"),
        ('"nccl"', (), "nccl", "DEADLOCK"),
        ('"nccl" if torch.cuda.is_available() else "gloo"', (), "nccl", "DEADLOCK"),
    ],
)
def test_the_model_is_that_of_the_backend_that_the_script_names(
    tmp_path, backend, options, model, found
):
    """What it chooses by what this machine has is another backend elsewhere; --model overrules."""
    (tmp_path / "train.py").write_text(NEIGHBORS.format(backend=backend))
    done = planguard(tmp_path, *options, "--format", "json")
    result = json.loads(done.stdout)
    assert (result["model"], result["outcome"]) == (model, found), done.stderr
    if found == "SAFE":
        assert "decided under gloo, the backend that" in done.stdout
        assert "train.py:7 names; --model decides another one" in done.stdout
