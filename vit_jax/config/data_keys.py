"""Keys of the data, and of what happens to training images."""

from vit_jax.config.key import Key

DATA_KEYS = (
    Key(
        "data.source",
        "",
        "what to read: a folder of class folders or of ArrayRecord files, a manifest "
        "(.csv, .jsonl), a folder of IDX files, tfds:NAME or digits (bundled)",
    ),
    Key(
        "data.mean",
        (0.5,),
        "what is subtracted from pixels on a scale from 0 to 1: one number, or one a "
        "channel",
        minimum=0,
        maximum=1,
    ),
    Key(
        "data.std",
        (0.5,),
        "what they are then divided by: one number, or one a channel",
        minimum=0.001,
    ),
    Key(
        "data.bad_images",
        "error",
        "what an unreadable image does: it ends the run, or it keeps its place in the "
        "batch with weight 0 and is listed",
        choices=("error", "skip"),
    ),
    Key("data.train.split", "train", "split that trains"),
    Key(
        "data.train.batch_size",
        512,
        "examples of one optimizer step over all devices",
        minimum=1,
    ),
    Key(
        "data.train.fraction",
        1.0,
        "share of the training split to train on, with the classes in proportion",
        minimum=1e-6,
        maximum=1,
    ),
    Key("data.eval.source", "", "where evaluation reads; empty: data.source"),
    Key("data.eval.split", "test", "split that evaluates; empty: none does"),
    Key(
        "data.eval.resize",
        "stretch",
        "how an image reaches the model's size: the whole image squeezed, or its "
        "middle with the aspect kept",
        choices=("stretch", "center"),
    ),
    Key(
        "data.eval.crop_fraction",
        0.875,
        "share of the shorter side that the middle keeps (center)",
        minimum=0.01,
        maximum=1,
    ),
    Key(
        "data.eval.interpolation",
        "bilinear",
        "filter that resizes, widened over the area that a new pixel stands for",
        choices=("bilinear", "bicubic"),
    ),
    Key(
        "data.eval.batch_size",
        512,
        "examples of one evaluation step over all devices; changes no result",
        minimum=1,
    ),
    Key(
        "data.workers",
        0,
        "processes that read and decode; 0: the main process does",
        minimum=0,
    ),
    Key(
        "augment.crop",
        "random_resized",
        "how a training image reaches the model's size: a random area and aspect "
        "resized, the whole image resized, or the whole image resized and shifted",
        choices=("random_resized", "resize", "shift"),
    ),
    Key(
        "augment.crop_area",
        tuple,
        "smallest and largest share of the image's area (random_resized); unset: the "
        "preset's, else (0.05,1.0)",
        minimum=1e-6,
        maximum=1,
    ),
    Key(
        "augment.crop_aspect",
        (0.75, 1.3333),
        "smallest and largest columns / rows of the area (random_resized)",
        minimum=0.01,
        maximum=100,
    ),
    Key("augment.shift", 0, "largest shift in pixels, each way (shift)", minimum=0),
    Key(
        "augment.flip",
        0.5,
        "probability of mirroring left and right",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.preset",
        "custom",
        "a published set of values, AugReg's levels or DeiT's, for the augment keys "
        "that are unset; a key that is set counts more than the preset",
        choices=(
            "custom",
            "none",
            "light1",
            "light2",
            "medium1",
            "medium2",
            "strong1",
            "strong2",
            "deit",
        ),
    ),
    Key(
        "augment.repeats",
        int,
        "how often an epoch holds each image, every time changed anew; it stays as "
        "long, and so holds one image of this many; unset: the preset's, else 1",
        minimum=1,
        maximum=100,
    ),
    Key(
        "augment.randaugment_layers",
        int,
        "operations of RandAugment for each image; 0: off; unset: the preset's, else 0",
        minimum=0,
        maximum=10,
    ),
    Key(
        "augment.randaugment_magnitude",
        float,
        "their strength on torchvision's scale, whose end is 30; unset: the preset's, "
        "else 9.0",
        minimum=0,
        maximum=90,
    ),
    Key(
        "augment.randaugment_std",
        float,
        "standard deviation of the strength of each operation; unset: the preset's, "
        "else 0.0",
        minimum=0,
        maximum=30,
    ),
    Key(
        "augment.randaugment_probability",
        float,
        "probability of each operation to be applied; unset: the preset's, else 1.0",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.mixup",
        float,
        "parameter of the Beta distribution of Mixup's shares; 0: off; unset: the "
        "preset's, else 0.0",
        minimum=0,
    ),
    Key(
        "augment.cutmix",
        float,
        "parameter of the Beta distribution of CutMix's shares; 0: off; unset: the "
        "preset's, else 0.0",
        minimum=0,
    ),
    Key(
        "augment.cutmix_probability",
        float,
        "share of steps with CutMix rather than Mixup, where both are on; unset: the "
        "preset's, else 0.5",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.erasing",
        float,
        "probability that a rectangle of an image becomes noise; unset: the preset's, "
        "else 0.0",
        minimum=0,
        maximum=1,
    ),
    Key(
        "augment.label_smoothing",
        float,
        "share of the target spread over all classes; unset: the preset's, else 0.0",
        minimum=0,
        maximum=0.999,
    ),
    Key(
        "augment.jitter_brightness",
        0.0,
        "brightness is multiplied by 1 - this to 1 + this; 0: off",
        minimum=0,
        maximum=2,
    ),
    Key(
        "augment.jitter_contrast",
        0.0,
        "contrast is multiplied by 1 - this to 1 + this; 0: off",
        minimum=0,
        maximum=2,
    ),
    Key(
        "augment.jitter_saturation",
        0.0,
        "saturation is multiplied by 1 - this to 1 + this; 0: off",
        minimum=0,
        maximum=2,
    ),
    Key(
        "augment.jitter_hue",
        0.0,
        "hue turns by up to this share of the colour circle, each way; 0: off",
        minimum=0,
        maximum=0.5,
    ),
)
