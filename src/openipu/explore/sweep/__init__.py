"""Sweeps: one job over many machines, batches and settings, as rows, CSV and a picture."""

from openipu.explore.sweep.axes import Axis, Point, list_points, parse_axis
from openipu.explore.sweep.picture import draw_front
from openipu.explore.sweep.rows import Row, find_front, plan_points

__all__ = ["Axis", "Point", "Row", "draw_front", "find_front", "list_points", "parse_axis", "plan_points"]
