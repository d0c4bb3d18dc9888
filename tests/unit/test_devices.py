"""Devices of played ranks: a machine without CUDA, and one with fewer devices than ranks."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import _get_current_function_mode  # noqa: E402 - torch must be there

from planguard.capture.play.devices import Devices, devices_for_ranks, note_told  # noqa: E402 - same
from planguard.capture.play.logs import RankLog  # noqa: E402 - same

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


def test_without_cuda_a_device_is_the_cpu(monkeypatch):
    """Whatever names it; the program is told of a device for every rank of its node, a library of
    none. Behind the block all is as before.
    """
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    with devices_for_ranks():
        torch.cuda.set_device(7)
        assert torch.cuda.device_count() == 4
        assert eval("torch.cuda.device_count()", {"torch": torch}) == 0  # noqa: S307 - made of a text: no file of the program's
        assert torch.cuda.current_device() == 3
        made = [
            torch.ones(2, device="cuda:1"), torch.ones(2, device=3), torch.ones(2).cuda(3),
            torch.ones(2, device=torch.device("cuda", 1)), torch.ones(2).to(torch.device(1)),
            torch.ones(2, device=torch.device(type="cuda", index=2)),
            torch.ones(2).to(3), torch.ones(2).to("cuda"), torch.nn.Linear(2, 2).to(3).weight,
            torch.ones(2).pin_memory().to("cuda:0", non_blocking=True),
            torch.empty(2, pin_memory=True),
        ]  # fmt: skip
        assert {one.device.type for one in made} == {"cpu"}
    assert torch.cuda.device_count() == 0
    assert _get_current_function_mode() is None


def test_what_is_loaded_to_cuda_lies_on_the_cpu_without_cuda(tmp_path):
    """A snapshot that a second start reads, as torch's tutorials do; behind the block it fails."""
    file = tmp_path / "snapshot.pt"
    torch.save({"w": torch.arange(3.0)}, file)
    with devices_for_ranks():
        for place in ("cuda:0", torch.device("cuda", 1), "cpu", None, {"cpu": "cuda:0"}):
            loaded = torch.load(file, map_location=place)
            assert loaded["w"].device.type == "cpu"
            assert loaded["w"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="CUDA"):
        torch.load(file, map_location="cuda:0")


def test_a_scaler_for_cuda_scales_without_cuda():
    """torch switches it off there; then nobody reads ``found_inf``, on which each rank decides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not torch.amp.GradScaler("cuda").is_enabled()
        assert not torch.cuda.amp.GradScaler().is_enabled()
    with devices_for_ranks():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            old = torch.cuda.amp.GradScaler()
        for scaler in (torch.amp.GradScaler("cuda"), torch.amp.GradScaler(), old):
            assert scaler.is_enabled()
            assert scaler.scale(torch.ones(1)).item() == 65536.0
        assert not torch.amp.GradScaler("cuda", enabled=False).is_enabled()


@pytest.mark.parametrize("are_told", [False, True])
def test_whoever_asks_for_a_device_is_told_what_is_said(monkeypatch, are_told):
    """The truth at first, and that is noted; then one for every rank. A library hears the truth.

    Behind ``torch.device`` every name is the CPU, and the backend is still the device's.
    """
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    devices = Devices(are_told=are_told)
    built_for = torch.accelerator.current_accelerator()
    with devices_for_ranks(devices):
        assert torch.cuda.is_available() is are_told
        assert torch.accelerator.is_available() is are_told
        assert torch.accelerator.device_count() == (4 if are_told else 0)
        torch.accelerator.set_device_index(3)
        assert len(devices.asked) == (0 if are_told else 3)
        library = {"torch": torch}
        for name in ("torch.cuda", "torch.accelerator"):
            assert eval(f"{name}.is_available()", library) is False  # noqa: S307 - no file of the program's
        found = torch.accelerator.current_accelerator()
        assert found.type == "cuda" if are_told else found == built_for
        if are_told:
            device = torch.device(f"{found}:{3}")
            assert torch.ones(2, device=device).device.type == "cpu"
            assert torch.distributed.get_default_backend_for_device(device) == "nccl"
    assert not torch.cuda.is_available()
    assert torch.accelerator.current_accelerator() == built_for


def test_that_a_program_went_on_without_a_device_is_said():
    """With the place where it asked; nothing is said of a program that did not ask."""
    logs = {rank: RankLog(rank, [], {}, devices=["job.py:7"]) for rank in range(2)}
    note_told(logs, "", "")
    assert all("(job.py:7); it was told that there is none" in log.notes[0][1]
               for log in logs.values())  # fmt: skip
    silent = {0: RankLog(0, [], {})}
    note_told(silent, "", "")
    assert not silent[0].notes


def test_a_build_for_cuda_without_a_device_is_told_of_one(monkeypatch):
    """Such a build names CUDA as its accelerator, and says that it is not there."""
    cuda = torch.device("cuda")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: cuda)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    devices = Devices()
    with devices_for_ranks(devices):
        assert torch.accelerator.device_count() == 0
        assert devices.asked
    with devices_for_ranks(Devices(are_told=True)):
        assert torch.accelerator.device_count() == 4


def test_ranks_share_devices_where_there_are_fewer(monkeypatch):
    """A stand-in for a machine with two devices, and a node of four ranks: numbers go round."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_setDevice", chosen.append, raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with devices_for_ranks():
        for device in (3, "cuda:2", torch.device("cuda:1")):
            torch.cuda.set_device(device)
        assert chosen == [1, 0, 1]
        assert torch.cuda.device_count() == 4
        made = (torch.device("cuda", 3), torch.device("cuda:2"), torch.device(1))
        assert [one.index for one in made] == [1, 0, 1]
        assert torch.device("cpu").type == "cpu"
        mode = _get_current_function_mode()
        seen = mode.__torch_function__(
            lambda *args, **named: (args, named), (), ("cuda:3", torch.device("cuda:2"), "cuda", 3),
            {"device": 3, "dim": 3},
        )  # fmt: skip
        cuda = torch.device
        assert seen == (
            (cuda("cuda:1"), cuda("cuda:0"), "cuda", 3), {"device": cuda("cuda:1"), "dim": 3},
        )  # fmt: skip
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with devices_for_ranks():
        assert _get_current_function_mode() is None
        assert torch.cuda.device_count() == 2
