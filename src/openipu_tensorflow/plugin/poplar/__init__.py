"""`tensorflow.compiler.plugin.poplar`: what programs import of the original's driver by name."""
