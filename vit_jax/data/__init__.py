"""Images from anywhere to uint8 batches, in an order that survives a restart."""
