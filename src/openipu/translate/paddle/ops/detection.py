"""Detection of objects: boxes from what a YOLO network predicts."""

from __future__ import annotations

import torch

from openipu.translate.paddle.calls import Answer, Call, translates


@translates("yolo_box")
def decode_boxes(call: Call) -> Answer:
    """Boxes in pixels and scores by class; both zero where an object is less likely than the threshold."""
    x, sizes = call.tensor("X"), call.tensor("ImgSize").to(torch.float32)
    anchors, classes = call.numbers("anchors"), call.whole("class_num")
    count, ratio = len(anchors) // 2, call.whole("downsample_ratio", 32)
    batch, channels, rows, columns = x.shape
    aware = call.flag("iou_aware")
    if count < 1 or channels != count * (5 + classes + int(aware)):
        call.fail(f"has {channels} channels, which do not hold {count} anchors with {classes} classes")
    overlap = x[:, :count].sigmoid() if aware else None
    x = (x[:, count:] if aware else x).reshape(batch, count, 5 + classes, rows, columns)
    sure = x[:, :, 4].sigmoid()
    if overlap is not None:
        share = call.number("iou_aware_factor", 0.5)
        sure = sure ** (1 - share) * overlap**share
    scale = call.number("scale_x_y", 1.0)
    shift = (1 - scale) / 2
    height, width = (sizes[:, place].reshape(batch, 1, 1, 1) for place in (0, 1))
    across = torch.arange(columns, device=x.device, dtype=x.dtype)
    down = torch.arange(rows, device=x.device, dtype=x.dtype).reshape(rows, 1)
    middle_x = (across + x[:, :, 0].sigmoid() * scale + shift) * width / columns
    middle_y = (down + x[:, :, 1].sigmoid() * scale + shift) * height / rows
    wide, high = (
        torch.tensor(anchors[place::2], device=x.device, dtype=x.dtype).reshape(count, 1, 1) for place in (0, 1)
    )
    half_x = x[:, :, 2].exp() * wide * width / (ratio * columns) / 2
    half_y = x[:, :, 3].exp() * high * height / (ratio * rows) / 2
    left, top, right, bottom = middle_x - half_x, middle_y - half_y, middle_x + half_x, middle_y + half_y
    if call.flag("clip_bbox", True):
        left, top = left.clamp(min=0), top.clamp(min=0)
        right, bottom = torch.minimum(right, width - 1), torch.minimum(bottom, height - 1)
    likely = sure >= call.number("conf_thresh")
    boxes = torch.stack([left, top, right, bottom], -1) * likely.unsqueeze(-1)
    scores = (sure * likely).unsqueeze(2) * x[:, :, 5:].sigmoid()
    places = count * rows * columns
    return {
        "Boxes": boxes.reshape(batch, places, 4).to(x.dtype),
        "Scores": scores.permute(0, 1, 3, 4, 2).reshape(batch, places, classes),
    }
