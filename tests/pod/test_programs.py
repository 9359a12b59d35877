"""PopTorch programs on a pod: what they attach is what the operator's tools show."""

import os
import threading

import pytest
import torch

import gcipuinfo
import poptorch
from openipu.pod import find_pod


def make_model(**settings):
    options = poptorch.Options().showCompilationProgressBar(False)
    for setter, value in settings.items():
        getattr(options, setter)(value)
    return poptorch.inferenceModel(torch.nn.Linear(2, 2), options)


def test_a_running_model_is_seen_with_its_pid_until_it_is_destroyed(monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "bow-pod16")
    model = make_model(replicationFactor=2)
    model(torch.ones(2, 2))
    held = find_pod().list_attachments()
    assert [(one.pid, one.first, one.ipus) for one in held] == [(os.getpid(), 0, 2)]
    devices = gcipuinfo.gcipuinfo().getDevices()
    assert [device.get("user process id") for device in devices[:3]] == [str(os.getpid())] * 2 + [None]
    model.destroy()
    assert find_pod().list_attachments() == []


def test_a_call_does_not_touch_the_pod(monkeypatch):
    model = make_model()
    model(torch.ones(1, 2))
    monkeypatch.setenv("OPENIPU_STATE_DIR", "/nonexistent")
    monkeypatch.setattr("poptorch._devices.find_pod", lambda: pytest.fail("the pod was asked"))
    model(torch.ones(1, 2))


def test_a_model_is_refused_or_waits_as_the_user_says(monkeypatch, start_holder):
    monkeypatch.setenv("OPENIPU_POD", "bow-2000")
    holder = start_holder(4)
    model = make_model()
    with pytest.raises(poptorch.Error, match=rf"Failed to acquire 1 IPU\(s\): process {holder.pid}"):
        model(torch.ones(1, 2))
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    threading.Timer(0.3, holder.kill).start()
    assert model(torch.ones(1, 2)).shape == (1, 2)


def test_a_model_that_needs_more_ipus_than_the_partition_has_is_refused_even_if_it_waits(monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "c600")
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    with pytest.raises(poptorch.Error, match="2 IPUs were asked for, and partition c600 has 1"):
        make_model(replicationFactor=2)(torch.ones(2, 2))


def test_models_are_planned_for_the_pods_machine(monkeypatch):
    monkeypatch.setenv("OPENIPU_POD", "pod16")
    model = make_model()
    model.compile(torch.ones(1, 2))
    assert model._compiled.plan.system.name == "pod16"
    monkeypatch.setenv("OPENIPU_SYSTEM", "c600")  # an explicit wish goes first
    other = make_model()
    other.compile(torch.ones(1, 2))
    assert other._compiled.plan.system.name == "c600"


def test_reported_hardware_is_the_pods(monkeypatch):
    monkeypatch.setenv("OPENIPU_REPORT_HARDWARE", "1")
    assert poptorch.ipuHardwareIsAvailable(64)
    monkeypatch.setenv("OPENIPU_POD", "c600")
    assert poptorch.ipuHardwareIsAvailable(1)
    assert not poptorch.ipuHardwareIsAvailable(2)
    assert poptorch.ipuHardwareVersion() == 21
