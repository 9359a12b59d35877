"""Threads that compile at the same time."""

import threading

import pytest
import torch

from openipu import session
from openipu.graph import RunOptions
from openipu.overrides import Overrides, set_overrides


@pytest.fixture
def profile_root(tmp_path):
    before = set_overrides(Overrides(profile_root=tmp_path))
    yield tmp_path
    set_overrides(before)


def test_programs_of_one_name_get_profiles_of_their_own(profile_root):
    """Each waits for the others where its program is checked, so that none is done before all have begun."""
    together = threading.Barrier(4)
    directories = []

    def check(program, options):
        together.wait(timeout=1800)

    def compile_one(width):
        compiled = session.compile_model(
            torch.nn.Linear(width, 2),
            (torch.zeros(1, width),),
            options=RunOptions(training=False),
            name="one name",
            show_progress=False,
            front_end=session.FrontEnd(check=check),
        )
        directories.append(compiled.profile_directory)

    threads = [threading.Thread(target=compile_one, args=(width,), daemon=True) for width in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=1800)
    assert sorted(path.name for path in directories) == ["one name", "one name-2", "one name-3", "one name-4"]
    assert all((path / "profile.pop").is_file() for path in directories)
