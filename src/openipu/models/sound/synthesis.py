"""Speech from text: DeepVoice 3 and FastSpeech 2.

In: sizes and a `Format`. Out: modules on phonemes that give spectra, with their losses.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.layers import Convolution, Format, Linear, make_embedding, make_layer_norm, make_waves
from openipu.models.text.encoders import Attention, EncoderShape


@dataclass(frozen=True, slots=True)
class VoiceShape:
    """Sizes; as they stand those of FastSpeech 2's paper."""

    phonemes: int = 76
    bands: int = 80  # of a spectrum
    hidden: int = 256
    heads: int = 2
    layers: int = 4  # of the encoder, and as many of the decoder
    wide: int = 1024
    kernel: int = 9
    bins: int = 256  # of pitch and of energy
    most: int = 1024  # frames


class SpeechBlock(nn.Module):
    """Attention, then two convolutions over neighbours, each with a residual and a norm."""

    def __init__(self, shape: VoiceShape, form: Format) -> None:
        super().__init__()
        self.attention = Attention(EncoderShape(1, shape.hidden, shape.heads, 0), form)
        self.norm_attention, self.norm_output = (make_layer_norm(shape.hidden, form) for _ in range(2))
        self.widen = Convolution(shape.hidden, shape.wide, shape.kernel, form, dims=1)
        self.narrow = Convolution(shape.wide, shape.hidden, 1, form, dims=1)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.norm_attention(hidden + self.attention(hidden, None, None))
        fed = self.narrow(self.widen(hidden.transpose(1, 2)).relu()).transpose(1, 2)
        result: Tensor = self.norm_output(hidden + fed)
        return result


class VariancePredictor(nn.Module):
    """One number for each phoneme: two convolutions with norms, and a linear layer."""

    def __init__(self, width: int, form: Format) -> None:
        super().__init__()
        self.filters = nn.ModuleList([Convolution(width, width, 3, form, dims=1) for _ in range(2)])
        self.norms = nn.ModuleList([make_layer_norm(width, form) for _ in range(2)])
        self.answer = Linear(width, 1, form)

    def forward(self, hidden: Tensor) -> Tensor:
        for filter_, norm in zip(self.filters, self.norms, strict=True):
            hidden = norm(filter_(hidden.transpose(1, 2)).relu().transpose(1, 2))
        result: Tensor = self.answer(hidden)[..., 0]
        return result


class FastSpeech(nn.Module):
    """Ren et al. 2020: phonemes, how long, high and loud each is, and all frames of the spectrum at once."""

    def __init__(self, shape: VoiceShape, form: Format, *, frames: int) -> None:
        super().__init__()
        self.shape, self.frames = shape, frames
        self.words = make_embedding(shape.phonemes, shape.hidden, form)
        self.encode = nn.ModuleList([SpeechBlock(shape, form) for _ in range(shape.layers)])
        self.duration, self.pitch, self.energy = (VariancePredictor(shape.hidden, form) for _ in range(3))
        self.high, self.loud = (make_embedding(shape.bins, shape.hidden, form) for _ in range(2))
        self.layers = nn.ModuleList([SpeechBlock(shape, form) for _ in range(shape.layers)])
        self.answer = Linear(shape.hidden, shape.bands, form)
        self.waves: Tensor
        self.register_buffer("waves", make_waves(max(shape.most, frames), shape.hidden, form), persistent=False)

    def forward(
        self,
        phonemes: Tensor,
        durations: Tensor | None = None,
        pitch: Tensor | None = None,
        energy: Tensor | None = None,
        spectrum: Tensor | None = None,
    ) -> Tensor:
        """Pitch and energy are bins. Without them and durations, those that are predicted are used."""
        hidden = self.words(phonemes) + self.waves[: phonemes.shape[1]]
        for layer in self.encode:
            hidden = layer(hidden)
        long, high, loud = self.duration(hidden), self.pitch(hidden), self.energy(hidden)
        last = self.shape.bins - 1
        held = (long.float().exp() - 1).round().clamp(min=0) if durations is None else durations.float()
        hidden = hidden + self.high((high * last).round().clamp(0, last).int() if pitch is None else pitch)
        hidden = hidden + self.loud((loud * last).round().clamp(0, last).int() if energy is None else energy)
        frames = align(held, self.frames).to(hidden.dtype) @ hidden + self.waves[: self.frames]
        for layer in self.layers:
            frames = layer(frames)
        drawn: Tensor = self.answer(frames)
        if durations is None or pitch is None or energy is None or spectrum is None:
            return drawn
        sounding = align(held, self.frames).sum(-1, keepdim=True)
        missed = ((drawn.float() - spectrum.float()).abs() * sounding).sum() / (sounding.sum() * self.shape.bands)
        spoken = nn.functional.mse_loss(long.float(), (durations.float() + 1).log())
        sung = nn.functional.mse_loss(high.float(), pitch.float() / last)
        called = nn.functional.mse_loss(loud.float(), energy.float() / last)
        return mark_loss(missed + spoken + sung + called, "sum")


def align(durations: Tensor, frames: int) -> Tensor:
    """Which phoneme sounds in each frame: [batch, frames, phonemes] of ones and zeros."""
    ends = durations.cumsum(-1)[:, None]
    place = torch.arange(frames, device=durations.device, dtype=durations.dtype)[None, :, None]
    return ((place < ends) & (place >= ends - durations[:, None])).float()


class GatedBlock(nn.Module):
    """A convolution whose second half gates the first, with a residual; `causal` sees nothing of what follows."""

    def __init__(self, width: int, kernel: int, form: Format, *, causal: bool) -> None:
        super().__init__()
        self.before = kernel - 1 if causal else kernel // 2
        self.after = 0 if causal else kernel - 1 - kernel // 2
        self.filter = Convolution(width, 2 * width, kernel, form, padding=0, dims=1)

    def forward(self, hidden: Tensor) -> Tensor:
        padded = nn.functional.pad(hidden.transpose(1, 2), (self.before, self.after))
        gated = nn.functional.glu(self.filter(padded), 1).transpose(1, 2)
        result: Tensor = (hidden + gated) * 0.5**0.5
        return result


class DeepVoice(nn.Module):
    """Ping et al. 2017 (DeepVoice 3): convolutions read the text, others speak it, and look where they are in it."""

    def __init__(
        self,
        form: Format,
        *,
        phonemes: int = 149,
        bands: int = 80,
        hidden: int = 256,
        kernel: int = 5,
        reading: int = 7,
        speaking: int = 4,
        most: int = 1024,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.words = make_embedding(phonemes, hidden, form)
        self.read = nn.ModuleList([GatedBlock(hidden, kernel, form, causal=False) for _ in range(reading)])
        self.enter = Linear(bands, hidden, form)
        self.layers = nn.ModuleList([GatedBlock(hidden, kernel, form, causal=True) for _ in range(speaking)])
        self.ask = nn.ModuleList([Linear(hidden, hidden, form) for _ in range(speaking)])
        self.tell = nn.ModuleList([Linear(hidden, hidden, form) for _ in range(speaking)])
        self.answer = Linear(hidden, bands, form)
        self.waves: Tensor
        self.register_buffer("waves", make_waves(most, hidden, form), persistent=False)

    def forward(self, text: Tensor, spoken: Tensor, spectrum: Tensor | None = None) -> Tensor:
        """`spoken` is the spectrum up to the frame before each; `spectrum` what is to come."""
        keys = first = self.words(text)
        for layer in self.read:
            keys = layer(keys)
        values = (keys + first) * 0.5**0.5
        keys = keys + self.waves[: text.shape[1]]
        hidden = self.enter(spoken).relu()
        for layer, ask, tell in zip(self.layers, self.ask, self.tell, strict=True):
            hidden = layer(hidden)
            asked = ask(hidden + self.waves[: spoken.shape[1]])
            weights = (asked @ keys.transpose(1, 2) * self.hidden**-0.5).softmax(-1)
            hidden = (hidden + tell(weights @ values)) * 0.5**0.5
        drawn: Tensor = self.answer(hidden)
        return drawn if spectrum is None else nn.functional.l1_loss(drawn.float(), spectrum.float())
