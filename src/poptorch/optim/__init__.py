"""`poptorch.optim`: torch's optimizers with the arguments that IPU users know, and LAMB."""

from poptorch.optim._adam import Adam, AdamW
from poptorch.optim._base import Optimizer, VariableAttributes
from poptorch.optim._lamb import LAMB
from poptorch.optim._rmsprop import RMSprop
from poptorch.optim._sgd import SGD

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]
