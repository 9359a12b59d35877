"""Encoders and decoders of text, and their relatives on patches of images."""
