"""The model against published figures: read rows, predict each with the planner, score, summarise.

`outcome` documents how a predictor is plugged in.
"""

from openipu.explore.validation.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.explore.validation.parallel import predict_together
from openipu.explore.validation.registry import Answer, predict_row
from openipu.explore.validation.rows import FigureRow, read_rows
from openipu.explore.validation.score import Score, Summary, score_answer, summarise_by_source, summarise_by_topic
from openipu.explore.validation.systems import find_system

__all__ = [
    "Answer",
    "FigureRow",
    "Outcome",
    "Prediction",
    "Predictor",
    "Score",
    "Summary",
    "Unmodelled",
    "find_system",
    "predict_row",
    "predict_together",
    "read_rows",
    "score_answer",
    "summarise_by_source",
    "summarise_by_topic",
]
