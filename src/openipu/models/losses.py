"""Models with their losses, as training programs need them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss


class WithClassLoss(nn.Module):
    """A classifier and its cross entropy."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.body(inputs).float(), labels)


class WithMixedImages(nn.Module):
    """A classifier of images that arrive as bytes: made numbers, normalised and mixed in pairs on the device, as the
    vendor's public pre-training of ViT does it. Labels are mixed likewise."""

    def __init__(self, body: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.body, self.dtype = body, dtype

    def forward(self, images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        mean, deviation = (images.new_full((1, 3, 1, 1), value, dtype=torch.float) for value in (0.45, 0.22))
        clear = ((images.float() / 255.0 - mean) / deviation).to(self.dtype)
        mixed = share * clear + (1.0 - share) * clear.roll(1, 0)
        logits = self.body(mixed).float()
        losses = [nn.functional.cross_entropy(logits, wanted) for wanted in (labels, labels.roll(1, 0))]
        part = share.float().mean()
        return mark_loss(part * losses[0] + (1.0 - part) * losses[1], "sum")


class WithPixelLoss(nn.Module):
    """A class for every pixel."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        logits = self.body(images).flatten(2).transpose(1, 2).flatten(0, 1)
        return nn.functional.cross_entropy(logits.float(), labels.flatten())


class WithTeacher(nn.Module):
    """DINO (Caron et al. 2021): the student is to say of one view what the teacher says of another."""

    def __init__(self, body: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.body, self.teacher = body, teacher
        self.teacher.requires_grad_(False)

    def forward(self, large: Tensor, small: Tensor) -> Tensor:
        wanted = self.teacher(large).detach().softmax(-1)
        said = self.body(large).log_softmax(-1)
        glimpsed = self.body(small).log_softmax(-1)
        repeats = small.shape[0] // large.shape[0]
        all_said = torch.cat((said, glimpsed))
        return mark_loss(-(wanted.repeat(1 + repeats, 1) * all_said).sum(-1), "mean")
