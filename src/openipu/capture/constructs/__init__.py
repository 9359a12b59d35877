"""What user code may say inside forward: losses, scopes, streams, loops, custom ops, recurrent layers."""
