"""`ipu_tensorflow_addons.v1`"""
