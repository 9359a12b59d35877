"""What PopART refuses of a model, in its own words: single ops, gradients, stages, models that compute nothing."""
