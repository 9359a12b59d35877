"""Programs of several processes on one pod: who gets IPUs, who is refused, what a crash leaves behind."""

import gc
import os
import threading
import weakref

import pytest

from openipu.errors import PodError
from openipu.pod import find_pod


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")


def test_the_open_pod_gives_every_program_ipus_of_its_own(start_holder):
    other = start_holder(3)
    assert other.answer == ["holds", "0"]
    lease = find_pod().attach(4)
    assert lease.first == 4  # the first multiple of 4 behind IPUs 0 to 2
    assert {one.pid for one in find_pod().list_attachments()} == {other.pid, os.getpid()}
    lease.release()


def test_in_the_open_pod_a_wish_for_certain_ipus_concerns_ones_own_process_only(start_holder):
    start_holder(1)
    anywhere = [find_pod().attach(1) for _ in range(3)]  # models that do not choose are in nobody's way
    first = find_pod().attach(1, 0)
    assert first.first == 0
    assert find_pod().attach(1, 0) is None
    assert find_pod().attach(1, 2).first == 2
    for lease in (*anywhere, first):
        lease.release()


def test_a_pod_that_is_set_up_gives_an_ipu_to_one_program_at_a_time(four, start_holder):
    assert start_holder(2).answer == ["holds", "0"]
    mine = find_pod().attach(2)
    assert mine.first == 2
    assert find_pod().attach(1) is None
    assert start_holder(1).answer == ["refused"]
    mine.release()
    assert start_holder(1).answer == ["holds", "2"]


def test_killing_a_program_frees_its_ipus_at_once(four, start_holder):
    holder = start_holder(4)
    pod = find_pod()
    assert pod.attach(4) is None
    holder.kill()
    holder.wait()
    lease = pod.attach(4)
    assert lease is not None
    assert [one.pid for one in pod.list_attachments()] == [os.getpid()]
    lease.release()
    assert pod.list_attachments() == []
    assert not list(pod.directory.glob("*.attached"))


def test_a_program_can_wait_for_ipus(four, start_holder):
    holder = start_holder(4)
    pod = find_pod()
    assert pod.wait(lambda: pod.attach(1), timeout_seconds=0.1) is None
    threading.Timer(0.2, holder.kill).start()
    lease = pod.wait(lambda: pod.attach(1), timeout_seconds=300)
    assert lease is not None
    lease.release()


def test_a_forked_child_does_not_keep_ipus_attached(four):
    pod = find_pod()
    lease = pod.attach(4)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # lives on when its parent has given the IPUs back
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        assert pod.attach(1) is None  # the child's end of the file unlocks nothing
        lease.release()
        again = pod.attach(4)
        assert again is not None
        again.release()
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_more_ipus_than_there_are_is_an_error_and_not_a_wait(four):
    with pytest.raises(PodError, match=r"5 IPUs were asked for, and partition bow-2000 has 4"):
        find_pod().attach(5)
    with pytest.raises(PodError, match=r"IPUs 3 to 4 were asked for"):
        find_pod().attach(2, 3)


def test_who_is_in_the_way_is_named(four, start_holder):
    holder = start_holder(2)
    assert f"process {holder.pid} (" in find_pod().describe_rivals(4)
    assert "holds IPUs 0 to 1" in find_pod().describe_rivals(4)


def test_giving_back_twice_does_nothing(four):
    lease = find_pod().attach(1)
    lease.release()
    lease.release()
    assert not lease.held


def test_without_a_place_to_write_programs_of_the_open_pod_run_unseen(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(blocked / "state"))
    assert find_pod().attach(2).ipus == 2
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    with pytest.raises(PodError, match="Set OPENIPU_STATE_DIR"):
        find_pod().attach(2)


def test_programs_that_nobody_uses_any_more_give_their_ipus_back(four):
    class Program:
        def __init__(self):
            self.lease = find_pod().attach(4)
            self.end = weakref.finalize(self, self.lease.release)
            self.itself = self  # only the collector finds it

    gc.disable()
    try:
        Program()
        lease = find_pod().attach(4)
    finally:
        gc.enable()
    assert lease is not None
    lease.release()
