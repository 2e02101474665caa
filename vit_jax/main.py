"""`python -m vit_jax.main --config=… --workdir=…`, the same as `vit_jax train …`."""

import sys

from vit_jax.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
