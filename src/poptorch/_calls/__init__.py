"""One call of a model: its arguments on the way in, its results on the way out."""
