"""What the speech models share: masks of SpecAugment and the CTC loss, with static shapes."""
