"""Nothing of its own: collectives between shards are TensorFlow's ops, which have their gradients."""
