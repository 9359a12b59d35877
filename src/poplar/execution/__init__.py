"""From a graph to a run: compiling, executables, engines, streams, options, profiles.

In: graphs and programs. Out: mapped programs, and what they compute and cost.
"""
