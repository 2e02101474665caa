"""Models of other libraries with every tensor drawn anew, and their outputs."""

import numpy as np
import torch


def redraw(module, seed=0):
    """The torch module with every parameter drawn anew, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.mul_(0.1).add_(1)
            else:
                parameter.mul_(min(0.2, parameter[0].numel() ** -0.5))
    return module.eval()


def drawn(make, seed=0):
    """The module that `make()` builds, without the time of its own initialization."""
    with torch.device("meta"):
        module = make()
    return redraw(module.to_empty(device="cpu"), seed)


def images_of(shape, seed=0):
    """Two images [2, rows, columns, 3] of noise."""
    return np.random.default_rng(seed).normal(size=(2, *shape, 3)).astype("f")


def outputs(module, images):
    """What a torch module gives for images [B, Y, X, C]."""
    with torch.no_grad():
        out = module(torch.from_numpy(images).permute(0, 3, 1, 2))
    out = getattr(out, "logits", getattr(out, "pooler_output", out))
    return out.numpy()


def arrays_of(module):
    """Name -> NumPy array of a module's state."""
    return {name: t.numpy() for name, t in module.state_dict().items()}
