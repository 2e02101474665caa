"""Pictures of models and runs: arrays in, matplotlib figures out."""
