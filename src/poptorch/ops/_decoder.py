"""`ctc_beam_search_decoder`."""

from __future__ import annotations

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import FunctionCall
from openipu.host.beam_search import search_beams
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> list[torch.Tensor]:
    """The most likely label sequences for log-probabilities [time, batch, classes].

    Returns log-probabilities [batch, paths], lengths [batch, paths] and labels [batch, paths, time], whose unused ends
    are blanks.
    """
    require_tensor(probs, "ctc_beam_search_decoder: probs must be a torch.tensor argument.")
    require_tensor(lengths, "ctc_beam_search_decoder: lengths must be a torch.tensor argument.")
    if probs.dim() != 3:
        raise createPoptorchError(
            "ctc_beam_search_decoder: incorrect shape for probs. It must be of shape [input_length, batch_size, "
            f"num_classes], not {list(probs.shape)}."
        )
    steps, samples, classes = probs.shape
    if lengths.shape != (samples,):
        raise createPoptorchError(
            f"ctc_beam_search_decoder: lengths must be of shape [{samples}], one for each sample, not "
            f"{list(lengths.shape)}."
        )
    if not 0 <= blank < classes or beam_width < 1 or not 1 <= top_paths <= beam_width:
        raise createPoptorchError(
            f"ctc_beam_search_decoder: blank must be one of the {classes} classes, beam_width at least 1, and "
            f"top_paths between 1 and beam_width. Got blank={blank}, beam_width={beam_width}, top_paths={top_paths}."
        )

    def decode(probabilities: torch.Tensor, sizes: torch.Tensor) -> list[torch.Tensor]:
        return search_beams(probabilities, sizes, blank, beam_width, top_paths)

    if not is_capturing():
        return decode(probs, lengths)
    results = [
        torch.empty((samples, top_paths), dtype=probs.dtype, device="meta"),
        torch.empty((samples, top_paths), dtype=torch.int32, device="meta"),
        torch.empty((samples, top_paths, steps), dtype=torch.int32, device="meta"),
    ]
    return call_in_graph(FunctionCall("ctc_beam_search_decoder", decode), [probs, lengths], results)
