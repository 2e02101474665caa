"""What a config will cost, before it runs and where no accelerator is."""
