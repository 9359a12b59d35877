"""A training script as users write it for poprun: it partitions its data, writes checkpoints, and goes on from them.

Words: a directory for results; environment: STEPS, and KILL, FREEZE or RAISE as `instance:step` to fail there.
"""

import os
import signal
import sys
from pathlib import Path

import torch

import popdist
import popdist.poptorch
import poptorch
from openipu import session_cache

TOTAL_REPLICAS, ACCUMULATION, STEPS = 8, 2, int(os.environ.get("STEPS", "6"))


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3)

    def forward(self, x, labels):
        hidden = torch.nn.functional.dropout(torch.relu(self.first(x)), 0.2)
        logits = self.second(hidden)
        return logits, torch.nn.functional.cross_entropy(logits, labels)


def build(options):
    options.randomSeed(3).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(ACCUMULATION)
    torch.manual_seed(popdist.getInstanceIndex())  # instances begin with different weights: those of instance 0 count
    model = Classifier()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.02)
    return model, optimizer, poptorch.trainingModel(model, options, optimizer)


def make_batch(step, first, replicas):
    """One call's inputs: those of some of the job's replicas."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(ACCUMULATION, TOTAL_REPLICAS, 2, 6, generator=generator)[:, first : first + replicas]
    labels = torch.randint(0, 3, (ACCUMULATION, TOTAL_REPLICAS, 2), generator=generator)[:, first : first + replicas]
    return x.reshape(-1, 6), labels.reshape(-1)


def train(options, directory):
    model, optimizer, training = build(options)
    index, replicas = popdist.getInstanceIndex(), options.replication_factor
    begin, checkpoint = 0, directory / "checkpoint.pt"
    if checkpoint.exists():
        stored = torch.load(checkpoint)
        model.load_state_dict(stored["model"])
        training.compile(*make_batch(0, index * replicas, replicas))
        optimizer.load_state_dict(stored["optimizer"])
        training.rng_state = stored["random"]
        begin = stored["step"]
    for step in range(begin, STEPS):
        if os.environ.get("RAISE") == f"{index}:{step}":
            raise ValueError("the data of this step is broken")
        if os.environ.get("KILL") == f"{index}:{step}":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("FREEZE") == f"{index}:{step}":
            os.kill(os.getpid(), signal.SIGSTOP)
        training(*make_batch(step, index * replicas, replicas))
        if index == 0:
            state = {
                "step": step + 1,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "random": training.rng_state,
            }
            torch.save(state, directory / "checkpoint.new")
            os.replace(directory / "checkpoint.new", checkpoint)
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    torch.save(weights, directory / f"weights.{index}")
    print(f"instance {index} has trained")


def note_planning(directory):
    """Leave a file where this instance plans the program, instead of taking the plan from the cache."""
    plan_program = session_cache.plan_program

    def plan(*args, **kwargs):
        (directory / f"planned.{popdist.getInstanceIndex()}").touch()
        return plan_program(*args, **kwargs)

    session_cache.plan_program = plan


if __name__ == "__main__":
    note_planning(Path(sys.argv[1]))
    train(popdist.poptorch.Options(), Path(sys.argv[1]))
