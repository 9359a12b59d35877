"""Puts IPUs into Paddle: the names that a wheel without them refuses.

In: Paddle, imported or not. Out: `paddle.static.IpuStrategy` and the others of `docs/paddle.md`, working. Done once.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any

from openipu_paddle.importing import import_quietly

PIR_VARIABLE = "FLAGS_enable_pir_api"
_done: list[bool] = []


def activate() -> None:
    """Import Paddle, in its legacy form unless the environment says otherwise, and extend it."""
    if _done:
        return
    _done.append(True)
    with import_quietly():
        _extend()


def _extend() -> None:
    if "paddle" not in sys.modules:
        os.environ.setdefault(PIR_VARIABLE, "0")
    paddle: Any = importlib.import_module("paddle")
    own = logging.getLogger("openipu")
    if own.level == logging.NOTSET:  # Paddle has the root logger print everything
        own.setLevel(logging.WARNING)
    from openipu_paddle import backend, compiled_program, custom_ops, devices, strategy

    core = paddle.base.core
    place = devices.make_place_class(core.CPUPlace)
    _set_everywhere(paddle, "is_compiled_with_ipu", lambda: True)
    _set_everywhere(paddle, "IPUPlace", place)
    core.get_ipu_device_count = devices.count_devices
    core.IpuBackend = backend.IpuBackend
    core.IpuStrategy = strategy.OptionStore
    for module in (paddle.static, paddle.base.compiler):
        module.IpuStrategy = strategy.IpuStrategy
        module.IpuCompiledProgram = compiled_program.IpuCompiledProgram
    executor = paddle.base.executor.Executor
    executor.run = compiled_program.extend_run(executor.run)
    _extend_devices(paddle, place)
    _extend_inference(paddle)
    custom_ops.install(paddle)
    if not paddle.get_flags([PIR_VARIABLE])[PIR_VARIABLE]:
        from openipu_paddle import fluid, legacy_api

        legacy_api.install(paddle)
        fluid.install(paddle)
    else:
        from openipu_paddle import pir_sharding

        pir_sharding.install(paddle)


def _set_everywhere(paddle: Any, name: str, value: Any) -> None:
    """A name of `core`, and of every module of Paddle that took it from there."""
    for module in list(sys.modules.values()):
        spelled = getattr(module, "__name__", "")
        if (spelled == "paddle" or spelled.startswith("paddle.")) and name in vars(module):
            setattr(module, name, value)
    setattr(paddle.base.core, name, value)


def _extend_inference(paddle: Any) -> None:
    from openipu_paddle import inference

    paddle.inference.Config = inference.make_config_class(paddle.inference.Config)
    paddle.inference.create_predictor = inference.extend_creation(paddle.inference.create_predictor)


def _extend_devices(paddle: Any, place: Any) -> None:
    from openipu_paddle import devices

    original = paddle.device.set_device
    convert = paddle.device._convert_to_place

    def convert_to_place(device: Any) -> Any:
        number = devices.read_device(device) if isinstance(device, str) else None
        return convert(device) if number is None else place(number)

    def set_device(device: Any) -> Any:
        number = devices.read_device(device) if isinstance(device, str) else None
        if number is None:
            return original(device)
        original("cpu")
        return place(number)

    paddle.device._convert_to_place = convert_to_place
    paddle.device.set_device = paddle.set_device = set_device
