"""The model against published figures: read rows, predict each with the planner, score, summarise.

`outcome` documents how a predictor is plugged in.
"""

from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.parallel import predict_together
from openipu.validation.figures.registry import Answer, predict_row
from openipu.validation.figures.rows import FigureRow, read_rows
from openipu.validation.figures.score import Score, Summary, score_answer, summarise_by_source, summarise_by_topic
from openipu.validation.figures.systems import find_system

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
