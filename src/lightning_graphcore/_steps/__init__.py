"""One step of a LightningModule as a graph: its arguments, what it takes for granted, and what it does besides."""
