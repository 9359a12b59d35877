"""The exceptions of the original, by its names.

In: a message that says what is wrong, where, and what to do. Out: classes below `poplar_error`.
"""

from __future__ import annotations

import builtins


class poplar_error(builtins.RuntimeError):
    """Base of all of them."""

    type = "poplar_error"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.type = cls.__name__


class file_load_error(poplar_error):
    """A file is missing or cannot be read."""


class missing_cycle_estimate(poplar_error):
    """A vertex has no estimate of its cycles."""


class missing_perf_estimate(missing_cycle_estimate):
    """The same under its later name."""


class symbol_error(poplar_error):
    """A codelet's symbol is not there."""


class unknown_field(poplar_error):
    """A vertex has no field of that name."""


class unknown_vertex_type(poplar_error):
    """No codelet of that name was added."""


class parse_error(poplar_error):
    """A text cannot be read: a codelet's source, options as JSON."""


class invalid_option(poplar_error):
    """An option is unknown, or has a value that it cannot have."""


class invalid_machine_model(poplar_error):
    """A model of an IPU that cannot be."""


class stream_connection_error(poplar_error):
    """A stream is not connected, or to something that does not fit."""


class graph_cycle_error(poplar_error):
    """Functions call each other in a circle."""


class graph_recursion_error(poplar_error):
    """A program contains itself."""


class invalid_tile_mapping(poplar_error):
    """An element or a vertex has no tile, or one that the target does not have."""


class type_error(poplar_error):
    """Element types do not match."""


class no_size_specified(poplar_error):
    """A field needs a size."""


class profiling_disabled(poplar_error):
    """A profile was asked of a run that made none."""


class control_program_error(poplar_error):
    """A program is wrong: an unknown number, a predicate that is no scalar."""


class runtime_error(poplar_error):
    """A program stopped while it ran."""


class application_runtime_error(runtime_error):
    """The user's own program is the reason."""


class system_runtime_error(runtime_error):
    """The system is the reason."""


class overflow_error(poplar_error):
    """A value does not fit its type."""


class tensor_creation_error(poplar_error):
    """A tensor cannot be made so."""


class tensor_io_state_error(poplar_error):
    """Host access to a tensor that was not made for it."""


class index_error(poplar_error):
    """An index outside of a tensor."""


class graph_object_load_error(poplar_error):
    """A saved executable cannot be read."""


class graph_object_creation_error(poplar_error):
    """A codelet cannot be made of what was given."""


class graph_connection_error(poplar_error):
    """A field and what was connected to it do not match, or vertices of a compute set stand in each other's way."""


class graph_program_compilation_error(poplar_error):
    """A program cannot be compiled."""


class graph_replication_error(poplar_error):
    """Replication that cannot be."""


class graph_memory_allocation_error(poplar_error):
    """A tile's memory is not enough."""

    def __init__(self, message: str, profile_path: str = "") -> None:
        super().__init__(message)
        self.graphProfilePath = profile_path

    def getProfilePath(self) -> str:
        """Where the profile of what does not fit was written; empty if it was not."""
        return self.graphProfilePath
