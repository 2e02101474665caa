"""Public weights in and out: foreign files and names, and ours."""
