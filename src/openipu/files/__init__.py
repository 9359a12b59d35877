"""The one way to read a file that somebody else may have written: within limits, and checked against a schema.

In: a path or a text, the type that it is to have, and an `Origin` that says how errors call it. Out: typed values, or
one error of the project's classes that says which file, what is wrong, and what to do next. Files are never trusted:
a FIFO does not block, a bomb does not fill memory, and nothing of a file is run.
"""

from openipu.files.databases import Database, DatabaseFormat, open_database
from openipu.files.documents import check_plain, dump_json, parse_json, parse_toml, read_json, read_toml
from openipu.files.origin import Origin
from openipu.files.plain import read_bytes, read_text
from openipu.files.series import inflate
from openipu.files.values import Count, Finite, Index, Positive, Text, Whole, convert
from openipu.files.zips import ZipLimits, read_zip

__all__ = [
    "Count",
    "Database",
    "DatabaseFormat",
    "Finite",
    "Index",
    "Origin",
    "Positive",
    "Text",
    "Whole",
    "ZipLimits",
    "check_plain",
    "convert",
    "dump_json",
    "inflate",
    "open_database",
    "parse_json",
    "parse_toml",
    "read_bytes",
    "read_json",
    "read_text",
    "read_toml",
    "read_zip",
]
