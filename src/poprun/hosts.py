"""Names of hosts, as poprun's users write them.

In: `host0,host1`, `node[0-2,5]`, or a file with a name a line. Out: a list of names.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from openipu.errors import OptionError
from openipu.files.origin import Origin, shorten
from openipu.files.plain import read_text

_LARGEST_HOST_FILE = 1 << 20
_MOST_HOSTS = 10_000
_LONGEST_HOST = 300
_BRACKETS = re.compile(r"([^\[\],]*)\[([^\]]*)\]([^\[\],]*)$")


def parse_hosts(text: str) -> list[str]:
    """`"a,b[0-1]"` -> a, b0, b1."""
    hosts: list[str] = []
    for word in _split_outside_brackets(text):
        match = _BRACKETS.fullmatch(word)
        if match is None:
            if not word or "[" in word or "]" in word:
                raise OptionError(f"--host: {shorten(word)} is not a host. Write host0,host1 or host[0-2,4].")
            hosts.append(word)
            continue
        for part in match[2].split(","):
            hosts += [f"{match[1]}{number}{match[3]}" for number in _expand_range(part, text)]
    return [_check_host(host) for host in hosts]


def read_host_file(path: Path) -> list[str]:
    """One host a line; what follows the name, such as `slots=2`, and comments are left out."""
    origin = Origin(f"The host file {path}", OptionError, "Check the path; the file has one host a line.")
    lines = read_text(path, origin, _LARGEST_HOST_FILE).splitlines()
    hosts = [line.split("#")[0].split()[0] for line in lines if line.split("#")[0].strip()]
    if not hosts:
        raise OptionError(f"The host file {path} names no host. Write one a line.")
    if len(hosts) > _MOST_HOSTS:
        raise OptionError(f"The host file {path} names more than {_MOST_HOSTS} hosts.")
    return [_check_host(host) for host in hosts]


def is_this_host(name: str) -> bool:
    """Is it the machine that poprun runs on?"""
    own = socket.gethostname()
    return name in ("localhost", "127.0.0.1", "::1", own, own.split(".")[0])


def _check_host(name: str) -> str:
    """A name is a word of the remote shell's command line: it must not look like an option of it."""
    if name.startswith("-") or not name.isprintable() or len(name) > _LONGEST_HOST:
        raise OptionError(f"{shorten(name)} is not a host: a name begins with a letter or a digit.")
    return name


def _split_outside_brackets(text: str) -> list[str]:
    words, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]


def _expand_range(part: str, whole: str) -> list[str]:
    """`"08-10"` -> 08, 09, 10."""
    first, dash, last = part.strip().partition("-")
    if not _is_number(first) or (dash and not _is_number(last)) or (dash and int(last) < int(first)):
        raise OptionError(f"--host {shorten(whole)}: {shorten(part)} is not a range. Write host[0-2,4], for example.")
    if not dash:
        return [first]
    if int(last) - int(first) >= _MOST_HOSTS:
        raise OptionError(f"--host: {shorten(part)} are more than {_MOST_HOSTS} hosts. Give a shorter range.")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
