"""A residual network (He et al. 2015) in plain PyTorch, with bottleneck blocks: 3, 4, 6, 3 of them make ResNet-50."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

EXPANSION = 4  # channels that leave a block, over channels of its 3 x 3 convolution


class BottleneckBlock(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions around a shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        outputs = channels * EXPANSION
        self.reduce = make_convolution(inputs, channels, 1)
        self.transform = make_convolution(channels, channels, 3, stride)
        self.expand = make_convolution(channels, outputs, 1)
        changes = stride != 1 or inputs != outputs
        self.shortcut = make_convolution(inputs, outputs, 1, stride) if changes else nn.Identity()
        self.activate = nn.ReLU(inplace=True)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.activate(self.reduce(images))
        hidden = self.activate(self.transform(hidden))
        return self.activate(self.expand(hidden) + self.shortcut(images))


class ResidualNetwork(nn.Module):
    """A stem, four groups of blocks that each halve the image, and a linear classifier."""

    def __init__(self, blocks: Sequence[int], classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(make_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        layers: list[nn.Module] = []
        inputs = 64
        for group, count in enumerate(blocks):
            channels = 64 * 2**group
            for index in range(count):
                stride = 2 if group > 0 and index == 0 else 1
                layers.append(BottleneckBlock(inputs, channels, stride))
                inputs = channels * EXPANSION
        self.layers = nn.Sequential(*layers)
        self.classify = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.layers(self.stem(images)))


def make_convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )
