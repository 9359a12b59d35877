"""The one way to read a file that somebody else may have written: within limits, and checked against a schema.

In: a path or a text, the type that it is to have, and an `Origin` that says how errors call it. Out: typed values, or
one error of the project's classes that says which file, what is wrong, and what to do next. Files are never trusted:
a FIFO does not block, a bomb does not fill memory, and nothing of a file is run.

Nothing is imported here, so that `openipu --help` stays quick: take what is needed from the modules.
"""
