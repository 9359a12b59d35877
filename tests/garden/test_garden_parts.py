"""Parts of the garden's models against what defines them: regions, samples, alignments, memories."""

from __future__ import annotations

import pytest
import torch

from openipu.models import ModelSpec, build_model
from openipu.models.images.regions import compare_boxes, cut_out, find_shifts, move_boxes
from openipu.models.layers import Format
from openipu.models.sampler import HamiltonianSampler
from openipu.models.sound.synthesis import align
from openipu.models.temporal import TemporalGraph, TemporalShape
from openipu_garden.boxes import draw_things, judge_boxes
from openipu_garden.families.graphs.tgn import Stream


@pytest.mark.parametrize(
    ("size", "weights"),
    [
        ("v3", 61_949_149),  # Darknet's own file of YOLO v3 has as many
        ("v4", 64_363_101),  # and that of YOLO v4
    ],
)
def test_detectors_have_the_numbers_of_weights_of_their_authors(size, weights):
    model, _ = build_model(ModelSpec("grid detector", Format.FLOAT32, True, size, pixels=416), 1)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights


def test_regions_are_cut_out_by_linear_interpolation():
    down, right = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    seen = torch.stack((down, right))[None]
    region = torch.tensor([[[2.0, 1.0, 6.0, 5.0]]])  # left, top, right, bottom, in cells
    found = cut_out(seen, region, 4)
    # Four samples over four cells lie in the middle of each: 2.5, 3.5, … from the left, as cells 2, 3, … do.
    torch.testing.assert_close(found[0, 1, 0], torch.tensor([2.0, 3.0, 4.0, 5.0]))
    torch.testing.assert_close(found[0, 0, :, 0], torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_shifts_bring_boxes_to_where_they_are_wanted():
    torch.manual_seed(0)
    corner, size = 10 * torch.rand(2, 5, 2), 1 + 5 * torch.rand(2, 5, 2)
    boxes, wanted = torch.cat((corner, corner + size), -1)
    torch.testing.assert_close(move_boxes(boxes, find_shifts(boxes, wanted)), wanted)


def test_boxes_are_compared_by_what_they_share():
    left, right = torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 6.0, 6.0]])
    assert compare_boxes(left[None], right[None]).tolist() == [[[pytest.approx(1 / 7), 0.0]]]  # 1 of 4 + 4 - 1


def test_only_the_right_box_with_the_right_kind_is_found():
    _, boxes, kinds = draw_things(torch.Generator().manual_seed(0), 8, 64)
    assert judge_boxes(boxes, kinds, boxes, kinds) == 1.0
    assert judge_boxes(boxes, kinds + 1, boxes, kinds) == 0.0
    assert judge_boxes(boxes + 60, kinds, boxes, kinds) == 0.0


def test_the_samplers_slope_is_the_gradient_of_its_energy():
    torch.manual_seed(0)
    sampler = HamiltonianSampler(Format.FLOAT32, observations=7, features=3, noise=0.5)
    sampler.inputs.copy_(torch.randn(7, 3))
    sampler.answers.copy_(torch.randn(7))
    places = torch.randn(4, 3, requires_grad=True)
    energy, slope = sampler._measure(places)
    (expected,) = torch.autograd.grad(energy.sum(), places)
    torch.testing.assert_close(slope, expected)


def test_phonemes_sound_as_long_as_they_are_held():
    found = align(torch.tensor([[2.0, 0.0, 1.0]]), 4)
    assert found[0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_nodes_remember_what_happened_to_them_and_others_nothing():
    torch.manual_seed(0)
    graph = TemporalGraph(TemporalShape(48, memory=8, features=4, time=4, heads=2, neighbours=2), Format.FLOAT32)
    batch = Stream().draw()
    _, answers = graph(*batch)
    sources, targets = batch[4], batch[5]
    met = torch.cat((sources, targets))
    told = graph.message.abs().sum(1) > 0
    assert set(told.nonzero().flatten().tolist()) == set(met.tolist())
    assert answers.shape == (len(sources), 2)
