"""What `IPUTrainer` is made of: programs, loaders, optimizers, the loop, evaluation, checkpoints."""
