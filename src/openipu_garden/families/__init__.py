"""One module a family, by what it is for. A module lists its families in `FAMILIES`."""
