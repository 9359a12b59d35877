"""RNN-T: words from spectra, one after the other, without being told when each was said."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from openipu.models.layers import Format
from openipu.models.sound.speech import Transducer, sum_alignments
from openipu_garden.data import draw_sounds
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

WORDS, SAID, FEATURES, HELD = 6, 3, 12, 4  # words to know, said in an utterance; features of a frame; frames of a word
START = 0  # also "next frame" of the loss


class WithAlignments(nn.Module):
    """The transducer with its loss over all alignments."""

    def __init__(self, body: Transducer) -> None:
        super().__init__()
        self.body = body

    def forward(self, frames: Tensor, before: Tensor, words: Tensor | None = None) -> Tensor:
        logits = self.body.join(frames, before)
        return logits if words is None else sum_alignments(logits, words)


def _begin() -> Course:
    torch.manual_seed(0)
    body = Transducer(Format.FLOAT32, features=FEATURES, hidden=64, joint=32, classes=WORDS + 1, layers=(1, 1, 1))
    model = WithAlignments(body)
    voices = torch.randn(WORDS + 1, FEATURES, generator=torch.Generator().manual_seed(0))
    lesson = Lesson(
        train=model,
        ask=model,
        inputs=2,
        draw=lambda generator: _draw(generator, voices),
        judge=_judge,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
        steps=300,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator, voices: Tensor) -> Batch:
    """Words of four frames each; what was said before each, with the start in front; the words."""
    words = 1 + torch.randint(WORDS, (32, SAID), generator=generator)
    before = torch.nn.functional.pad(words, (1, 0), value=START)
    return draw_sounds(generator, words, voices, HELD), before.int(), words


def _judge(logits: Tensor, batch: Batch) -> float:
    """The share of utterances of which the greedy way through frames and words says every word, and no other."""
    best = logits.argmax(-1)
    right = 0
    for choices, words in zip(best, batch[-1], strict=True):
        right += _follow(choices, words.tolist())
    return right / len(best)


def _follow(choices: Tensor, words: list[int]) -> bool:
    """Greedy decoding. As long as it is right, the predictor was given what it would have said itself."""
    spoken = 0
    for frame in range(choices.shape[0]):
        while (word := int(choices[frame, spoken])) != START:
            if spoken == len(words) or word != words[spoken]:
                return False
            spoken += 1
    return spoken == len(words)


FAMILIES = (
    Family(
        name="rnn-t",
        title="RNN-T, recurrent transducer",
        area=Area.RECOGNITION,
        paper="Graves 2012",
        learns="utterances of three words out of six, in noisy spectra, by the sum over all alignments",
        goal=Goal("utterances right in every word", bar=0.9, guess=1 / WORDS**SAID),
        begin=_begin,
        figures=("MLP-053",),
    ),
)
