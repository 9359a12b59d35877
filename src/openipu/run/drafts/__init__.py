"""Drafts: a captured graph on its way to an executable, what shares memory in it, and the function it becomes."""
