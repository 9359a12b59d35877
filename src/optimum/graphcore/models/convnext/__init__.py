"""Pipelined ConvNeXt."""

from optimum.graphcore.models.convnext.modeling_convnext import PipelinedConvNextForImageClassification

__all__ = ["PipelinedConvNextForImageClassification"]
