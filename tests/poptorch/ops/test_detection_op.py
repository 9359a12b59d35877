"""`Nms`, the non-maximum suppression that public detectors call by name."""

import pytest
import torch

import poptorch

LOWEST = torch.finfo(torch.float32).min


def detect(scores, boxes, count, least, overlap):
    """One image, in plain Python: the best first, then the best that overlaps none of its class."""
    left, found = scores.clone(), []
    while len(found) < count and left.max() > least:
        index, kind = divmod(int(left.argmax()), left.shape[1])
        found.append((index, kind, left[index, kind].item()))
        box = boxes[index]
        for other in range(len(boxes)):
            low, high = torch.maximum(boxes[other, :2], box[:2]), torch.minimum(boxes[other, 2:], box[2:])
            common = (high - low).clamp(min=0).prod()
            areas = [(corner[2:] - corner[:2]).prod() for corner in (boxes[other], box)]
            if common / (sum(areas) - common) > overlap:
                left[other, kind] = LOWEST
        left[index, kind] = LOWEST
    return found


class Detector(torch.nn.Module):
    def __init__(self, count, **attributes):
        super().__init__()
        self.count, self.attributes = count, {"numDetections": count, "useGather": 1, **attributes}

    def forward(self, scores, boxes):
        batch = scores.shape[0]
        examples = [torch.zeros(batch, self.count, dtype=torch.long)] * 5
        return tuple(poptorch.custom_op([scores, boxes], "Nms", "ai.graphcore", 1, examples, self.attributes))


def make_boxes(batch=2, number=30, classes=3):
    generator = torch.Generator().manual_seed(5)
    corners = torch.rand(batch, number, 2, generator=generator)
    sizes = 0.1 + 0.5 * torch.rand(batch, number, 2, generator=generator)
    return torch.rand(batch, number, classes, generator=generator), torch.cat([corners, corners + sizes], -1)


@pytest.mark.parametrize(("count", "least"), [(10, 0.2), (40, 0.6)])
def test_detections_are_those_of_a_plain_search_in_each_image(count, least):
    scores, boxes = make_boxes()
    model = Detector(count, threshold=0.4, scoreThreshold=least)
    compiled = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    indices, best, best_boxes, classes, lengths = compiled(scores, boxes)
    assert all(
        torch.equal(here, there) for here, there in zip(compiled(scores, boxes), model(scores, boxes), strict=True)
    )
    for image in range(2):
        found = detect(scores[image], boxes[image], count, least, 0.4)
        number = len(found)
        assert lengths[image] == number
        assert indices[image, :number].tolist() == [index for index, _, _ in found]
        assert classes[image, :number].tolist() == [kind for _, kind, _ in found]
        assert best[image, :number].tolist() == [score for _, _, score in found]
        assert torch.equal(best_boxes[image, :number], boxes[image][[index for index, _, _ in found]])
        assert set(indices[image, number:].tolist()) <= {-1}
        assert set(classes[image, number:].tolist()) <= {2**31 - 1}
        assert not best[image, number:].any()
    assert number > 0


def test_with_a_sigma_overlaps_are_weakened_instead_of_dropped():
    boxes = torch.tensor([[[0.0, 0.0, 2.0, 1.0], [1.0, 0.0, 3.0, 1.0]]])  # 1 of 3 in common
    scores = torch.tensor([[[0.9], [0.6]]])
    _, best, _, _, lengths = Detector(2, sigma=0.5, scoreThreshold=0.0)(scores, boxes)
    assert lengths.tolist() == [2]
    assert best[0].tolist() == pytest.approx([0.9, 0.6 * torch.exp(torch.tensor(-((1 / 3) ** 2) / 0.5)).item()])


def test_each_detection_costs_one_turn_of_the_loop():
    cycles = []
    for count in (10, 20):
        compiled = poptorch.inferenceModel(Detector(count), poptorch.Options().showCompilationProgressBar(False))
        compiled(*make_boxes())
        cycles.append(compiled._compiled.plan.timing.call_cycles)
        compiled.destroy()
    assert 1.8 < cycles[1] / cycles[0] < 2.2


@pytest.mark.parametrize(
    ("inputs", "count", "said"),
    [([torch.ones(1, 4), torch.ones(1, 4, 4)], 3, "Nms takes scores"), (list(make_boxes()), 0, "at least 1, not 0")],
)
def test_operands_that_cannot_be_meant_are_refused(inputs, count, said):
    with pytest.raises(poptorch.Error, match=said):
        Detector(count)(*inputs)
