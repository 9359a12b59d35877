"""Programs as data: JSON and plain tensor bytes, exact, without pickle; reading runs no code of the file."""

from openipu.graph.serial.reading import load_program
from openipu.graph.serial.tensors import pack_tensors, unpack_tensors
from openipu.graph.serial.writing import SerialProgram, dump_program

__all__ = ["SerialProgram", "dump_program", "load_program", "pack_tensors", "unpack_tensors"]
