"""Write the samples of this folder: ``python tests/samples/ddp/regenerate.py``.

Needs torch (made with 2.13.0); no process group, no device, nothing is run.
"""

from __future__ import annotations

from pathlib import Path

from planguard import registry

registry.find("ddp")  # mounts planguard.planners where it is not installed

from planguard.planners.ddp import dump  # noqa: E402

FOLDER = Path(__file__).parent


def main() -> None:
    """Write all samples."""
    from torch import nn

    mlp = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)])
    norms = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)) for _ in range(3)])
    layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=256, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    half = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64).half())
    dump(mlp, FOLDER / "mlp.ddp.json", world_size=2, bucket_cap_mb=0.5, steps=3)
    dump(norms, FOLDER / "norms.ddp.json", world_size=4, bucket_cap_mb=0.02)
    dump(encoder, FOLDER / "encoder.ddp.json", world_size=8, bucket_cap_mb=0.25)
    dump(half, FOLDER / "two-dtypes.ddp.json", world_size=2)
    dump(
        mlp, FOLDER / "find-unused.ddp.json", world_size=2, bucket_cap_mb=0.5,
        find_unused_parameters=True,
    )  # fmt: skip
    dump(mlp, FOLDER / "static-graph.ddp.json", world_size=4, static_graph=True, steps=3)


if __name__ == "__main__":
    main()
