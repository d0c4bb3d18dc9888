"""FSDP2 with torch.distributed.checkpoint: async_save beside the next steps, then a load."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from common import batches, folder, net, slips
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy


def main():
    dist.init_process_group("cpu:gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = net()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    place, saving = folder("async_save"), None
    saves = dist.new_group(backend="gloo")
    for step, (inputs, targets) in enumerate(batches(rank)):
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1 and not slips("no checkpoint on one rank", rank):
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optimizer": moments}
            saving = dcp.async_save(state, checkpoint_id=place / "step1", process_group=saves)
    if saving is not None:
        saving.result()
    dist.barrier()
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=place / "step1")
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
