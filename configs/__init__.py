"""Recipes, one a file; each changes values of vit_jax.config.default_config()."""
