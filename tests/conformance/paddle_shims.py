"""A pytest plugin for the public tests of PaddlePaddle on IPUs: puts IPUs into Paddle before they are collected."""

from __future__ import annotations

import openipu_paddle  # noqa: F401
