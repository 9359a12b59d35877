"""What `popart.InferenceSession` and `popart.TrainingSession` are made of."""
