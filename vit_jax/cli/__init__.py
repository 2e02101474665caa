"""Commands: flags in, one call down."""
