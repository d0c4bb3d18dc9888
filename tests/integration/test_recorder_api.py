"""The recorder between a program and torch.distributed changes nothing, in any form of call."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import types
from pathlib import Path

import pytest

import planguard

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

WORKER = Path(__file__).with_name("api_worker.py")
SILENT = {
    "get_default_backend_for_device", "get_node_local_rank", "init_process_group",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "record_comm", "supports_complex",
}  # fmt: skip
"""Public functions that ask no group, or are what every form stands on."""
NO_GLOO = {"shrink_group"}
"""Public functions that no backend without a GPU has."""
NOT_CALLS = {
    "BackendType", "CUSTOM", "GLOO", "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL", "boxed", "unbox",
    "name", "rank", "size", "bound_device_id", "group_desc", "get_group_store", "set_timeout",
    "split_group", "merge_remote_group", "use_pg_for_symm_mem_rendezvous",
}  # fmt: skip
"""Public members of a process group that communicate nothing, or make a group of another kind."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What every form returns on each rank, without the recorder and with it."""
    found = {}
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    for words in ([], ["recorded"]):
        folder = tmp_path_factory.mktemp("api")
        with socket.socket() as one:
            one.bind(("localhost", 0))
            port = str(one.getsockname()[1])
        command = [sys.executable, str(WORKER), str(folder), port, *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=110, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        if words:
            found["logs"] = folder / "logs"
        found[bool(words)] = [json.loads((folder / f"{r}.json").read_text()) for r in range(2)]
    return found


def test_every_form_behaves_as_without_the_recorder(results):
    """Each form of each public call returns the same on every rank, or raises the same."""
    for rank in range(2):
        plain, recorded = results[False][rank], results[True][rank]
        different = {n: (plain[n], recorded[n]) for n in plain if plain[n] != recorded[n]}
        assert different == {}
    raised = [n for n, said in results[False][0].items() if str(said).count("Error:")]
    assert len(raised) <= 2, raised


def test_the_log_of_every_form_is_a_plan(results):
    """What was recorded of all forms can be read and decided as far as it goes: nothing unsafe."""
    verdict = planguard.check(planguard.load(results["logs"]))
    assert not verdict.unsafe
    assert verdict.stats.actions > 100


def test_every_public_function_is_asked():
    """A function that a new torch makes public shows here until a form of it is asked."""
    import torch.distributed.distributed_c10d as c10d

    source = WORKER.read_text(encoding="utf-8")
    names = {name for name in c10d.__all__ if type(getattr(c10d, name)) is types.FunctionType}
    missing = sorted(n for n in names - SILENT - NO_GLOO if f"dist.{n}(" not in source)
    asked = {
        n for n in missing if f"(dist.{n})" in source or f".{n}(" in source or f'"{n}' in source
    }
    assert set(missing) - asked == set()


def test_every_method_of_a_group_is_handed_on():
    """A method that a new torch gives process groups shows here until the recorder hands it on."""
    import torch.distributed as dist

    from planguard.capture.groups.process_group import stub_group_class
    from planguard.capture.run.record_group import record_group_class

    names = {name for name in dir(dist.ProcessGroup) if not name.startswith("_")}
    for kind, others in (
        (record_group_class(), set()),
        (stub_group_class(), {"abort", "shutdown"}),
    ):
        mine = {
            name
            for part in kind.__mro__
            if part.__module__.startswith("planguard")
            for name in vars(part)
        }
        assert names - mine - NOT_CALLS - others - {"monitored_barrier"} == set()
