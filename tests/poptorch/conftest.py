"""Small models: one thread is quicker than waiting for the others. Warnings are shown, whatever others imported."""

import logging

import pytest
import torch

from poptorch._logging import logger


@pytest.fixture(autouse=True)
def _show_warnings():
    level = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(level)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
