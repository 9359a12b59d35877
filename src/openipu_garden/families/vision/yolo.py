"""YOLO v3 and v4: boxes of things in images, from three grids of cells at once."""

from __future__ import annotations

import torch
from torch import Tensor

from openipu.models.images.detection import GridDetector, GridShape
from openipu.models.images.networks import Make
from openipu.models.layers import Format
from openipu_garden.boxes import KINDS, draw_things, judge_boxes
from openipu_garden.family import Area, Course, Family, Goal
from openipu_garden.lesson import Batch, Lesson, LessonCourse

PIXELS = 64
STRIDES = (8, 16, 32)  # pixels of a cell of each grid
LARGEST = (24.0, 32.0)  # pixels of a thing that belongs to the first and to the second grid


def _begin(crossing: bool) -> Course:
    torch.manual_seed(0)
    shape = GridShape(width=4, blocks=(1, 1, 1, 1, 1), anchors=1, classes=KINDS, crossing=crossing)
    network = GridDetector(Make(Format.FLOAT32, training=True), shape)
    lesson = Lesson(
        train=network,
        ask=network,
        inputs=1,
        taught=4,
        draw=_draw,
        judge=lambda answers, batch: judge_boxes(*_read(answers), batch[4], batch[3][:, 0]),
        optimizer=torch.optim.Adam(network.parameters(), lr=4e-3),
        steps=350,
    )
    return LessonCourse(lesson)


def _draw(generator: torch.Generator) -> Batch:
    """Images with one thing each: the cell that its middle lies in, its box as that cell sees it, and its kind."""
    images, boxes, kinds = draw_things(generator, 32, PIXELS)
    middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    grid = (size.max(1).values[:, None] > torch.tensor(LARGEST)).sum(1)
    stride = torch.tensor(STRIDES)[grid]
    place = middle / stride[:, None]
    column, row = place.long().unbind(1)
    cells = _count_before()[grid] + row * (PIXELS // stride) + column
    seen = torch.cat((place - place.floor(), (size / stride[:, None]).log()), 1)
    return images, cells[:, None], seen[:, None], kinds[:, None], boxes


def _count_before() -> Tensor:
    """Cells of the grids in front of each."""
    counts = torch.tensor([(PIXELS // stride) ** 2 for stride in STRIDES])
    return counts.cumsum(0) - counts


def _read(answers: Tensor) -> tuple[Tensor, Tensor]:
    """The box of the likeliest cell of each image, and its kind."""
    best = answers[:, :, 0].argmax(1)
    chosen = answers[torch.arange(len(answers)), best]
    grid = (best[:, None] >= _count_before()).sum(1) - 1
    stride = torch.tensor(STRIDES)[grid]
    cell = best - _count_before()[grid]
    side = PIXELS // stride
    corner = torch.stack((cell % side, cell // side), 1)
    middle = (corner + chosen[:, 1:3].sigmoid()) * stride[:, None]
    half = chosen[:, 3:5].exp() * stride[:, None] / 2
    return torch.cat((middle - half, middle + half), 1), chosen[:, 5:].argmax(1)


GOAL = Goal("things found", bar=0.8, guess=0.044)
LEARNS = "to find a bright thing of any size in noisy images of 64 x 64, and which of three kinds it is, {}"

FAMILIES = (
    Family(
        name="yolo-v3",
        title="YOLO v3",
        area=Area.DETECTION,
        paper="Redmon and Farhadi 2018",
        learns=LEARNS.format("on the way up"),
        goal=GOAL,
        begin=lambda: _begin(crossing=False),
        figures=("GARDEN-YOLO-V3",),
    ),
    Family(
        name="yolo-v4",
        title="YOLO v4",
        area=Area.DETECTION,
        paper="Bochkovskiy et al. 2020",
        learns=LEARNS.format("on the way up and down again"),
        goal=GOAL,
        begin=lambda: _begin(crossing=True),
        figures=("GARDEN-YOLO-V4",),
    ),
)
