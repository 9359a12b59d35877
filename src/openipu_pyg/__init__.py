"""What PyTorch Geometric leaves to native libraries that have no build for every PyTorch, in PyTorch itself.

Sampling neighbours, dividing a graph into clusters and neighbours in space need pyg-lib or torch-sparse there. Where
neither is installed, `openipu_startup` has `arrival.register` called once a program imports the modules that need them.
So do static forms of layers whose shapes depend on values.
"""
