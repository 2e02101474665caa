"""Training: the floor that reads the config and turns arrays into trained weights."""
