"""Of `torchaudio`, whose stand-in computes no features."""
