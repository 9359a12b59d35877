"""How Lightning comes to know "ipu": its packages, its registries, and the choices of its `Trainer`."""
