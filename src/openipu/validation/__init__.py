"""The model of the IPU against published figures: the figures, and builders of the models that they name."""
