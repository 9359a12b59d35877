"""The rules of the op table, by families: each takes an `OpSite` and returns what that call costs."""
