"""Write the samples of this folder: ``python tests/samples/fsdp/regenerate.py``.

Needs torch (made with 2.13.0); no process group, no device, nothing is run.
"""

from __future__ import annotations

from pathlib import Path

from planguard import registry

registry.find("fsdp")  # mounts planguard.planners where it is not installed

from planguard.planners.fsdp import dump  # noqa: E402

FOLDER = Path(__file__).parent


def main() -> None:
    """Write all samples."""
    from torch import nn

    mlp = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])
    layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=256, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    frozen = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
    frozen[0].requires_grad_(requires_grad=False)
    layers = ["layers.*"]
    dump(mlp, FOLDER / "mlp.fsdp.json", world_size=2, units=["*"])
    dump(encoder, FOLDER / "encoder.fsdp.json", world_size=4, units=layers, steps=2)
    dump(
        encoder, FOLDER / "bf16.fsdp.json", world_size=8, units=layers, param_dtype="bfloat16",
        reduce_dtype="float32", forward_prefetch=1, backward_prefetch=2,
    )  # fmt: skip
    dump(encoder, FOLDER / "hybrid.fsdp.json", world_size=8, units=layers, replicate=2)
    dump(encoder, FOLDER / "part.fsdp.json", world_size=8, units=layers, reshard_after_forward=2)
    dump(frozen, FOLDER / "frozen.fsdp.json", world_size=3, units=["*"], steps=2, no_sync=[0])


if __name__ == "__main__":
    main()
