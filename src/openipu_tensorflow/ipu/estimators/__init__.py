"""Estimators for IPUs: model functions inside loops and pipelines of a device."""
