"""Memory: what an IPU would hold between runs, and the pages of this host behind it."""
