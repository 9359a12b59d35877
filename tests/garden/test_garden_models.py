"""The models behind the garden are those of their papers: sizes as published, parts by what defines them."""

from __future__ import annotations

import itertools

import pytest
import torch

from openipu.models import ModelSpec, build_model
from openipu.models.images.networks import Unet
from openipu.models.interest import AttentiveGru
from openipu.models.layers import Format
from openipu.models.sound.speech import sum_alignments
from openipu_garden.data import draw_gratings, score_explained, score_ranking
from openipu_garden.families.probability.evapotranspiration import compute_evapotranspiration


@pytest.mark.parametrize(
    ("kind", "size", "weights"),
    [
        ("efficientnet", "b0", 5_288_548),  # Tan and Le 2019: 5.3 M
        ("mobilenet", "v2", 3_504_872),  # Sandler et al. 2018: 3.4 M
        ("mobilenet", "v3", 5_483_032),  # Howard et al. 2019: 5.4 M
        ("decoder", "", 124_439_808),  # Radford et al. 2019: 124 M, as Hugging Face counts them
    ],
)
def test_models_have_the_published_numbers_of_weights(kind, size, weights):
    model, _ = build_model(ModelSpec(kind, Format.FLOAT32, True, size, length=1024), 1)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights


def test_the_loss_of_the_transducer_is_the_sum_over_all_alignments():
    torch.manual_seed(0)
    frames, words, classes = 4, 2, 3
    logits = torch.randn(1, frames, words + 1, classes)
    said = torch.tensor([[2, 1]])
    chances = logits.softmax(-1)[0]
    total = torch.tensor(0.0)
    for order in set(itertools.permutations("f" * (frames - 1) + "w" * words)):
        frame = spoken = 0
        way = torch.tensor(1.0)
        for move in order:
            if move == "f":
                way, frame = way * chances[frame, spoken, 0], frame + 1
            else:
                way, spoken = way * chances[frame, spoken, said[0, spoken]], spoken + 1
        total += way * chances[frame, spoken, 0]
    torch.testing.assert_close(sum_alignments(logits, said), -total.log())


def test_evapotranspiration_is_that_of_the_worked_example_of_its_paper():
    # FAO paper 56, example 18: Brussels on 6 July, 3.9 mm; humidity is 1.409 kPa of 1.997 kPa
    given = {"least": 12.3, "most": 21.5, "humidity": 1.409 / 1.997, "wind": 2.078, "radiation": 13.28}
    found = compute_evapotranspiration(**{name: torch.tensor(value) for name, value in given.items()})
    assert found.item() == pytest.approx(3.88, abs=0.03)


def test_what_attention_leaves_out_does_not_change_the_interest():
    torch.manual_seed(0)
    network = AttentiveGru(4, Format.FLOAT32)
    steps = torch.randn(2, 3, 4)
    weights = torch.tensor([[0.0, 1.0, 0.0]]).expand(2, 3)
    alone = network(steps[:, 1:2], torch.ones(2, 1))
    torch.testing.assert_close(network(steps, weights), alone)


@pytest.mark.parametrize(("padded", "side"), [(True, 68), (False, 28)])
def test_a_u_net_loses_its_edge_unless_it_is_padded(padded, side):
    # 68 -4 /2 -4 /2 -4 x2 -4 x2 -4 = 28
    network = Unet(Format.FLOAT32, width=2, levels=3, padded=padded)
    assert network(torch.zeros(1, 1, 68, 68)).shape == (1, 2, side, side)


def test_judges_know_right_from_wrong():
    wanted = torch.tensor([1.0, 2.0, 3.0])
    assert score_explained(wanted, wanted) == 1.0
    assert score_explained(torch.full((3,), 2.0), wanted) == 0.0
    clicked = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert score_ranking(torch.tensor([3.0, 1.0, 2.0, 0.0]), clicked) == 1.0
    assert score_ranking(torch.zeros(4), clicked) == 0.5


def test_data_are_the_same_for_the_same_seed_and_classes_are_all_there():
    images, labels = draw_gratings(torch.Generator().manual_seed(3), 200, 16)
    again, _ = draw_gratings(torch.Generator().manual_seed(3), 200, 16)
    assert torch.equal(images, again)
    assert set(labels.tolist()) == set(range(10))
