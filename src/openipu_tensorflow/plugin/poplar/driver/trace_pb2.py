"""Events of the original's driver. openipu records its own in `openipu.trace`; the names are here to be imported."""


class IpuTraceEvent:
    """One event; none is ever made here."""

    COMPILE_BEGIN, COMPILE_END, HOST_TO_DEVICE_TRANSFER, DEVICE_TO_HOST_TRANSFER, LOAD_ENGINE, EXECUTE = range(6)
