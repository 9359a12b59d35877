"""Programs as data: JSON and plain tensor bytes, exact, without pickle; reading runs no code of the file."""

from openipu.graph.serial.archive import Archive, read_archive, write_archive
from openipu.graph.serial.reading import load_program
from openipu.graph.serial.tensors import check_shape, pack_tensors, unpack_tensors
from openipu.graph.serial.values import DTYPES, shorten
from openipu.graph.serial.writing import SerialProgram, dump_program

__all__ = [
    "DTYPES",
    "Archive",
    "SerialProgram",
    "check_shape",
    "dump_program",
    "load_program",
    "pack_tensors",
    "read_archive",
    "shorten",
    "unpack_tensors",
    "write_archive",
]
