"""Where each part of a model runs: blocks, stages, IPUs, groups of replicas."""
