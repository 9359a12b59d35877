"""The engine's side of C++ programs: one process for each program, which asks over a socket.

In: requests of the library under `poplar/cxx`. Out: answers; errors by the names of the original's exceptions.
"""
