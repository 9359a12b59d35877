"""Smaller models from their specs: recommenders with a history, forecasts, autoencoders, decisions, GroupBERT.

In: a `ModelSpec` and a batch. Out: the module and the inputs of one micro-batch. Sizes are those of the papers, or of
the data sets that the models are known by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from openipu.models.forecast import Policy, TableForecast, WeatherRegression
from openipu.models.generative import RatingAutoencoder, VariationalAutoencoder
from openipu.models.interest import InterestNetwork, InterestShape
from openipu.models.sampler import HamiltonianSampler
from openipu.models.sound.synthesis import DeepVoice, FastSpeech, VoiceShape
from openipu.models.spec import Built, Inputs, ModelSpec, count_inputs, count_labels
from openipu.models.temporal import TemporalGraph, TemporalShape
from openipu.models.text.grouped import GroupedEncoder, GroupedShape

HISTORY = 100  # items of a user's history
ROSSMANN = (
    1115,
    7,
    2,
    3,
    12,
    31,
    4,
    24,
    53,
    12,
    4,
    4,
    3,
    8,
    8,
    4,
    2,
    2,
)  # values of each column
ROSSMANN_NUMBERS = 16
WEATHER_DAYS = 30
NETFLIX_ITEMS = 17_768


def _finish(spec: ModelSpec, model: torch.nn.Module, inputs: Inputs, *labels: torch.Tensor) -> Built:
    return model, (*inputs, *labels) if spec.training else inputs


def _build_forecast(spec: ModelSpec, batch: int) -> Built:
    model = TableForecast(spec.form, columns=ROSSMANN, numbers=ROSSMANN_NUMBERS, width=16, hidden=(1000, 500))
    numbers = torch.empty(batch, ROSSMANN_NUMBERS, dtype=spec.form.dtype)
    return _finish(spec, model, (count_inputs(batch, len(ROSSMANN)), numbers), torch.empty(batch))


def _build_weather(spec: ModelSpec, batch: int) -> Built:
    days = torch.empty(batch, WEATHER_DAYS, 6, dtype=spec.form.dtype)
    return _finish(spec, WeatherRegression(spec.form), (days,), torch.empty(batch))


def _build_policy(spec: ModelSpec, batch: int) -> Built:
    model = Policy(spec.form, features=1024, hidden=1024, actions=64, layers=4)
    seen = torch.empty(batch, 1024, dtype=spec.form.dtype)
    return _finish(spec, model, (seen,), count_labels(batch), torch.empty(batch))


def _build_autoencoder(spec: ModelSpec, batch: int) -> Built:
    ratings = torch.empty(batch, NETFLIX_ITEMS, dtype=spec.form.dtype)
    return _finish(spec, RatingAutoencoder(spec.form, items=NETFLIX_ITEMS), (ratings,), ratings)


def _build_variational(spec: ModelSpec, batch: int) -> Built:
    pictures = torch.empty(batch, 784, dtype=spec.form.dtype)
    return _finish(spec, VariationalAutoencoder(spec.form), (pictures,), pictures)


def _build_interest(spec: ModelSpec, batch: int) -> Built:
    model = InterestNetwork(InterestShape(), spec.form, evolves=spec.size == "evolving")
    one, many = count_inputs(batch), count_inputs(batch, HISTORY)
    return _finish(spec, model, (one, one, one, many, many), torch.empty(batch))


def _build_grouped(spec: ModelSpec, batch: int) -> Built:
    model = GroupedEncoder(GroupedShape(12, 768, 12, predicted=max(4, spec.length * 4 // 25)), spec.form)
    return _finish(spec, model, (count_inputs(batch, spec.length),), count_labels(batch, spec.length))


def _build_deep_voice(spec: ModelSpec, batch: int) -> Built:
    """100 phonemes, and 200 steps of four frames each, which the decoder speaks at once."""
    spoken = torch.empty(batch, 200, 320, dtype=spec.form.dtype)
    return _finish(spec, DeepVoice(spec.form, bands=320), (count_inputs(batch, 100), spoken), spoken)


def _build_fast_speech(spec: ModelSpec, batch: int) -> Built:
    """Utterances of LJSpeech: 112 phonemes and 768 frames at most."""
    model = FastSpeech(VoiceShape(), spec.form, frames=768)
    words = count_inputs(batch, 112)
    return _finish(spec, model, (words,), words, words, words, torch.empty(batch, 768, 80, dtype=spec.form.dtype))


def _build_sampler(spec: ModelSpec, batch: int) -> Built:
    return HamiltonianSampler(spec.form), (torch.empty(batch, 256, dtype=spec.form.dtype),)


def _build_temporal(spec: ModelSpec, batch: int) -> Built:
    """Batches of 200 events: up to 600 nodes take part, and ten neighbours of each."""
    shape = TemporalShape()
    nodes, dtype = 3 * batch, spec.form.dtype
    features, ages = torch.empty(nodes, shape.features, dtype=dtype), torch.empty(nodes, dtype=dtype)
    near = count_labels(nodes, shape.neighbours)
    ends = [count_labels(batch) for _ in range(3)]
    events = torch.empty(batch, shape.features, dtype=dtype)
    return TemporalGraph(shape, spec.form), (count_labels(nodes), features, ages, near, *ends, events)


SMALLER: Mapping[str, Callable[[ModelSpec, int], Built]] = {
    "forecast": _build_forecast,
    "weather": _build_weather,
    "policy": _build_policy,
    "autoencoder": _build_autoencoder,
    "variational autoencoder": _build_variational,
    "interest": _build_interest,
    "grouped encoder": _build_grouped,
    "deep voice": _build_deep_voice,
    "fast speech": _build_fast_speech,
    "sampler": _build_sampler,
    "temporal graph": _build_temporal,
}
