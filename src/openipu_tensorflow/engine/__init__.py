"""The door through which TensorFlow's graphs reach openipu's pipeline: compile a graph, then run it.

    step = compile_step(graph, inputs=[x, y], outputs=[loss], targets=[train_op], options=RunOptions(...))
    step.load(values_of_variables)
    (losses,) = step.run([images, labels])
    new_values = step.read()

Results come from openipu's engine. Accumulation, replicas and iterations are `RunOptions`, never loops of TensorFlow.
"""

from openipu_tensorflow.engine.door import compile_step
from openipu_tensorflow.engine.marks import mark_gradients, marking_optimizers
from openipu_tensorflow.engine.step import Source, Step, StepVariable

__all__ = ["Source", "Step", "StepVariable", "compile_step", "mark_gradients", "marking_optimizers"]
