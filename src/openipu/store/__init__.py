"""The store of compiled programs on disk: keyed, checksummed, shared by processes, bounded in size. Free of torch."""

from openipu.store.entry import Entry, Part
from openipu.store.keys import describe_build, describe_host, make_key
from openipu.store.libraries import CHECK_LIBRARY, LIBRARIES
from openipu.store.location import (
    DIRECTORY_VARIABLE,
    LIMIT_VARIABLE,
    choose_directory,
    choose_limit_bytes,
    explain_exposure,
    explain_openness,
    parse_size,
)
from openipu.store.locks import FileLock, hold_file, take_lock
from openipu.store.records import Finding, Removal, Summary
from openipu.store.store import Store, open_store

__all__ = [
    "CHECK_LIBRARY",
    "DIRECTORY_VARIABLE",
    "LIBRARIES",
    "LIMIT_VARIABLE",
    "Entry",
    "FileLock",
    "Finding",
    "Part",
    "Removal",
    "Store",
    "Summary",
    "choose_directory",
    "choose_limit_bytes",
    "describe_build",
    "describe_host",
    "explain_exposure",
    "explain_openness",
    "hold_file",
    "make_key",
    "open_store",
    "parse_size",
    "take_lock",
]
