"""The benchmark of openipu: the same models in plain PyTorch, torch.compile and openipu, in turns.

Run it with `make bench`, or see `python -m bench --help`.

Nothing here imports openipu but what runs in a process of its own: openipu tunes the allocator of the process that it
is in, and the other ways must neither gain nor lose by that.
"""
