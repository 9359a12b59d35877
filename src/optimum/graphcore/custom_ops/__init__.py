"""Ops of Optimum Graphcore that came as C++ for Poplar: what their names do here."""
