"""ResNet-18 with the usual names of its tensors; as a script, two steps of it under DDP."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if inputs != channels:
            cut = nn.Conv2d(inputs, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(cut, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add both ways."""
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """Eight blocks in four layers, 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for layer, channels in enumerate((64, 128, 256, 512), 1):
            stride = 1 if channels == inputs else 2
            blocks = nn.Sequential(Block(inputs, channels, stride), Block(channels, channels, 1))
            setattr(self, f"layer{layer}", blocks)
            inputs = channels
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in range(1, 5):
            x = getattr(self, f"layer{layer}")(x)
        return self.fc(x.mean((2, 3)))


def main() -> None:
    """Train two steps under DDP, as torchrun starts it."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(ResNet18())
    for _ in range(2):
        model(torch.randn(2, 3, 64, 64)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
