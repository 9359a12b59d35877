"""`ipu_tensorflow_addons.keras`"""
