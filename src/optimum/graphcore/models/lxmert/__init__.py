"""Pipelined LXMERT."""

from optimum.graphcore.models.lxmert.modeling_lxmert import PipelinedLxmertForQuestionAnswering

__all__ = ["PipelinedLxmertForQuestionAnswering"]
