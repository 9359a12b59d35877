"""Of `torchaudio`, whose stand-in reads no sound."""
