"""`python -m fuzz`: damages files of every kind that openipu reads from others, and reads them.

In: how many mutations, and a seed. Out: a table of verdicts. A case is `kind:seed:number` and nothing else: the same
three always make the same file. A reader either returns or raises an error of the project's own classes; a raw
traceback, a crash, a hang, too much memory, a write or a started process is a failure, and its file is kept.
"""
