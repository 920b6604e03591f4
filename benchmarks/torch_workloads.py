"""The models of benchmarks/models.py in PyTorch: functions of a list of parameters."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812

Params = list[torch.Tensor]
Loss = Callable[[Params, torch.Tensor, torch.Tensor], torch.Tensor]
Convolve = Callable[..., torch.Tensor]

CLASSES, VOCABULARY, LENGTH = 62, 80, 80
EMBEDDING, DEPTH, HEADS, DROPPED = 8, 2, 4, 0.1


class Workload(NamedTuple):
    """A model: its start, its loss on a minibatch, and the shape of a sample."""

    start: Params
    loss: Loss
    shape: tuple[int, ...]


class Sizes(NamedTuple):
    """What is smaller on a CPU: a stage's blocks of the resnet, units of the LSTM, the width."""

    blocks: int
    units: tuple[int, ...]
    width: int


SIZES = {"cuda": Sizes(3, (256, 256), 128), "cpu": Sizes(1, (64,), 64)}


def mlp() -> Workload:
    """Return the MLP of 64 and 30 units, with dropout after the first."""
    start = dense_start(784, 64, 30, CLASSES)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.dropout(F.relu(F.linear(x, p[0], p[1])), 0.5)
        return F.cross_entropy(F.linear(F.relu(F.linear(h, p[2], p[3])), p[4], p[5]), y)

    return Workload(start, loss, (784,))


class ChannelsFirst:
    """Layers of images [n, channels, height, width], as PyTorch has them."""

    channels, pixels = 1, (2, 3)

    def __init__(self, convolve: Convolve = F.conv2d) -> None:
        self.convolve = convolve

    def image(self, channels: int, side: int) -> tuple[int, ...]:
        """Return the shape of an image."""
        return channels, side, side

    def pool(self, h: torch.Tensor) -> torch.Tensor:
        """Return the largest of each 2 × 2."""
        return F.max_pool2d(h, 2)

    def add(self, h: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Add a bias to each channel."""
        return h + bias[:, None, None]

    def normalise(self, h: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """Normalise channels in 8 groups."""
        return F.group_norm(h, 8, scale, shift)

    def shortcut(self, h: torch.Tensor, stride: int, wider: int) -> torch.Tensor:
        """Leave pixels out, and add channels of zeros."""
        return F.pad(h[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, wider))


class ChannelsLast(ChannelsFirst):
    """The same of images [n, height, width, channels], convolved by windows."""

    channels, pixels = 3, (1, 2)

    def __init__(self) -> None:
        super().__init__(by_windows_of_last)

    def image(self, channels: int, side: int) -> tuple[int, ...]:
        """Return the shape of an image."""
        return side, side, channels

    def pool(self, h: torch.Tensor) -> torch.Tensor:
        """Return the largest of each 2 × 2."""
        height, width = h.shape[1] // 2, h.shape[2] // 2
        whole = h[:, : 2 * height, : 2 * width]
        return whole.unflatten(1, (height, 2)).unflatten(3, (width, 2)).amax((2, 4))

    def add(self, h: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Add a bias to each channel."""
        return h + bias

    def normalise(self, h: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        """Normalise channels in 8 groups."""
        return F.group_norm(h.permute(0, 3, 1, 2), 8, scale, shift).permute(0, 2, 3, 1)

    def shortcut(self, h: torch.Tensor, stride: int, wider: int) -> torch.Tensor:
        """Leave pixels out, and add channels of zeros."""
        return F.pad(h[:, ::stride, ::stride], (0, wider))


def by_windows(
    x: torch.Tensor, weight: torch.Tensor, stride: int = 1, padding: int = 0
) -> torch.Tensor:
    """Convolve by one product of all windows, which are joined from slices."""
    x, (_, _, rows, columns) = F.pad(x, (padding,) * 4), weight.shape
    height, width = x.shape[2] - rows + 1, x.shape[3] - columns + 1
    slices = [
        x[:, :, a : a + height : stride, b : b + width : stride]
        for a in range(rows)
        for b in range(columns)
    ]
    windows = torch.cat(slices, 1)
    flat = weight.permute(0, 2, 3, 1).flatten(1)
    found = torch.einsum("nkp,ok->nop", windows.flatten(2), flat)
    return found.unflatten(2, windows.shape[2:])


def by_windows_of_last(
    x: torch.Tensor, weight: torch.Tensor, stride: int = 1, padding: int = 0
) -> torch.Tensor:
    """Do so where channels are last."""
    x, (_, _, rows, columns) = F.pad(x, (0, 0, *(padding,) * 4)), weight.shape
    height, width = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    slices = [
        x[:, a : a + height : stride, b : b + width : stride]
        for a in range(rows)
        for b in range(columns)
    ]
    return torch.cat(slices, 3) @ weight.permute(2, 3, 1, 0).flatten(0, 2)


def cnn(images: ChannelsFirst) -> Workload:
    """Return the CNN of the peers: 3 × 3 convolutions of 32 and 64 channels, and 128 units.

    As in maxfl, bias and ReLU follow pooling, which changes no value and leaves a quarter of them.
    """
    start = [*conv_start(1, 32), torch.zeros(32), *conv_start(32, 64), torch.zeros(64)]
    start += dense_start(1600, 128, CLASSES)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.relu(images.add(images.pool(images.convolve(x, p[0])), p[1]))
        h = F.relu(images.add(images.pool(images.convolve(h, p[2])), p[3]))
        h = F.dropout(F.relu(F.linear(h.flatten(1), p[4], p[5])), 0.5)
        return F.cross_entropy(F.linear(h, p[6], p[7]), y)

    return Workload(start, loss, images.image(1, 28))


def resnet(blocks: int, images: ChannelsFirst) -> Workload:
    """Return a ResNet with group normalisation in 8 groups, for images of 32 × 32."""
    planes = [16 * 2**stage for stage in range(3) for _ in range(blocks)]
    start = unit_start(3, 16)
    for before, after in zip([16, *planes], planes, strict=False):
        start += unit_start(before, after) + unit_start(after, after)
    start += dense_start(64, CLASSES)

    def unit(p: Params, h: torch.Tensor, stride: int = 1) -> torch.Tensor:
        return images.normalise(images.convolve(h, p[0], stride=stride, padding=1), p[1], p[2])

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.relu(unit(p[:3], x)), p[3:]
        for _ in planes:
            block, rest = rest[:6], rest[6:]
            wider = block[0].shape[0] - h.shape[images.channels]
            stride = 2 if wider else 1
            inner = F.relu(unit(block[:3], h, stride))
            h = F.relu(unit(block[3:], inner) + images.shortcut(h, stride, wider))
        return F.cross_entropy(F.linear(h.mean(images.pixels), *rest), y)

    return Workload(start, loss, images.image(3, 32))


def lstm(units: tuple[int, ...]) -> Workload:
    """Return LSTM layers for 80 characters; PyTorch's have two biases."""
    layers = [
        torch.nn.LSTM(n, m, batch_first=True)
        for n, m in zip([EMBEDDING, *units], units, strict=False)
    ]
    start = [torch.randn(VOCABULARY, EMBEDDING) / EMBEDDING**0.5]
    start += [p.detach() for layer in layers for p in layer.parameters()]
    start += dense_start(units[-1], VOCABULARY)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.embedding(x, p[0]), p[1:]
        for m in units:
            state = torch.zeros(1, len(x), m, device=h.device)
            h = torch.lstm(h, (state, state), rest[:4], True, 1, 0.0, True, False, True)[0]
            rest = rest[4:]
        return F.cross_entropy(F.linear(h, *rest).flatten(0, 1), y.flatten())

    return Workload(start, loss, (LENGTH,))


def transformer(width: int) -> Workload:
    """Return the causal transformer of two layers, for 80 characters."""
    start = [torch.randn(VOCABULARY, width) / width**0.5, torch.randn(LENGTH, width) / width**0.5]
    for _ in range(DEPTH):
        start += [torch.ones(width), torch.zeros(width), *dense_start(width, 3 * width)]
        start += [*dense_start(width, width), torch.ones(width), torch.zeros(width)]
        start += [*dense_start(width, 4 * width), *dense_start(4 * width, width)]
    start += [torch.ones(width), torch.zeros(width), *dense_start(width, VOCABULARY)]

    def attend(h: torch.Tensor, p: Params) -> torch.Tensor:
        n = len(h)
        together = F.linear(h, p[0], p[1]).reshape(n, LENGTH, 3, HEADS, -1)
        queries, keys, values = together.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return F.linear(mixed.transpose(1, 2).reshape(n, LENGTH, width), p[2], p[3])

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.dropout(F.embedding(x, p[0]) + p[1], DROPPED), p[2:]
        for _ in range(DEPTH):
            q, rest = rest[:12], rest[12:]
            h = h + F.dropout(attend(F.layer_norm(h, (width,), q[0], q[1]), q[2:6]), DROPPED)
            units = F.gelu(
                F.linear(F.layer_norm(h, (width,), q[6], q[7]), q[8], q[9]), approximate="tanh"
            )
            h = h + F.dropout(F.linear(units, q[10], q[11]), DROPPED)
        logits = F.linear(F.layer_norm(h, (width,), rest[0], rest[1]), rest[2], rest[3])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    return Workload(start, loss, (LENGTH,))


IMAGES: dict[str, Callable[[], ChannelsFirst]] = {
    "": ChannelsFirst, " by windows": lambda: ChannelsFirst(by_windows),
    " by windows, channels last": ChannelsLast,
}  # fmt: skip
MODELS: dict[str, Callable[[Sizes], Workload]] = {
    "mlp": lambda _: mlp(),
    **{f"cnn{how}": lambda _, made=made: cnn(made()) for how, made in IMAGES.items()},
    **{
        f"resnet{how}": lambda sizes, made=made: resnet(sizes.blocks, made())
        for how, made in IMAGES.items()
    },
    "lstm": lambda sizes: lstm(sizes.units),
    "transformer": lambda sizes: transformer(sizes.width),
}


def dense_start(*widths: int) -> Params:
    """Return weights and biases of dense layers."""
    pairs = pairwise(widths)
    return [p for n, m in pairs for p in (torch.randn(m, n) / n**0.5, torch.zeros(m))]


def conv_start(inputs: int, outputs: int) -> Params:
    """Return the weight of a 3 × 3 convolution."""
    return [torch.randn(outputs, inputs, 3, 3) / (9 * inputs) ** 0.5]


def unit_start(inputs: int, outputs: int) -> Params:
    """Return a convolution without bias and the scaling of its normalisation."""
    return [*conv_start(inputs, outputs), torch.ones(outputs), torch.zeros(outputs)]
