"""Pipelined ViT."""

from optimum.graphcore.models.vit.modeling_vit import PipelinedViTForImageClassification

__all__ = ["PipelinedViTForImageClassification"]
