"""Tests vit_jax/data/decode.py: one rule for each kind of image."""

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.data.pictures import encoded, smooth_pixels
from vit_jax.data.decode import UnreadableImage, decode, has_colour, open_picture

PHOTO = Image.fromarray(smooth_pixels(40, 48))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"])
def test_grey_becomes_three_equal_channels(kind):
    image = decode(encoded(Image.new("L", (6, 5), 128), kind), 3)
    assert image.shape == (5, 6, 3) and image.dtype == np.uint8
    assert np.all(image == 128)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_grey_model_gets_one_channel_of_luma(kind):
    image = decode(encoded(PHOTO, kind, quality=100, subsampling=0), 1)
    luma = np.asarray(PHOTO.convert("L"))[..., None]
    assert image.shape == (40, 48, 1)
    assert np.abs(image.astype(int) - luma).max() <= 2


def test_jpeg_is_decoded_as_pillow_does():
    data = encoded(PHOTO, "JPEG", quality=90)
    np.testing.assert_array_equal(decode(data, 3), Image.open(io.BytesIO(data)))


def test_transparent_pixels_are_laid_on_white():
    clear = Image.new("RGBA", (2, 2), (200, 200, 200, 0))
    assert np.all(decode(encoded(clear, "PNG"), 3) == 255)
    half = Image.new("LA", (2, 2), (0, 128))
    assert np.all(decode(encoded(half, "PNG"), 3) == 127)
    opaque = Image.new("RGBA", (2, 2), (10, 20, 30, 255))
    np.testing.assert_array_equal(decode(encoded(opaque, "PNG"), 3)[0, 0], [10, 20, 30])


def test_palette_entries_become_their_colours():
    palette = Image.new("P", (3, 2), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    np.testing.assert_array_equal(
        decode(encoded(palette, "PNG"), 3)[1, 2], [10, 20, 30]
    )
    clear = encoded(palette, "PNG", transparency=1)
    assert np.all(decode(clear, 3) == 255)


def test_one_bit_becomes_black_and_white():
    assert np.all(decode(encoded(Image.new("1", (4, 4), 1), "PNG"), 3) == 255)
    assert np.all(decode(encoded(Image.new("1", (4, 4), 0), "PNG"), 3) == 0)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_are_scaled_to_8(kind):
    deep = np.array([[0, 257, 128 * 257, 65535]], np.uint16)
    image = decode(encoded(Image.fromarray(deep), kind), 3)
    np.testing.assert_array_equal(image[0, :, 0], [0, 1, 128, 255])


def png_of(deep: np.ndarray) -> bytes:
    return cv2.imencode(".png", deep[..., ::-1])[1].tobytes()


def test_16_bit_colours_keep_the_high_byte_as_in_pillow():
    deep = np.zeros((1, 5, 3), np.uint16)
    deep[0, :, 1] = (0, 255, 256, 128 * 257 + 255, 65535)
    data = png_of(deep)
    image = decode(data, 3)
    np.testing.assert_array_equal(image[0, :, 1], [0, 0, 1, 129, 255])
    np.testing.assert_array_equal(image, Image.open(io.BytesIO(data)))
    assert np.abs(image - deep / 257).max() <= 1


def test_cmyk_jpeg_keeps_its_colours():
    red = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)
    np.testing.assert_allclose(decode(red, 3)[4, 4], [255, 0, 0], atol=4)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_stands_for_an_animation(kind):
    frames = [
        Image.new("RGB", (4, 4), (shade, shade, shade)) for shade in (40, 90, 200)
    ]
    data = encoded(
        frames[0],
        kind,
        save_all=True,
        append_images=frames[1:],
        **_LOSSLESS.get(kind, {}),
    )
    image = decode(data, 3)
    assert image.shape == (4, 4, 3)
    assert np.all(image == 40)


_LOSSLESS = {"WEBP": {"lossless": True}}
_FULL = {"quality": 95, "subsampling": 0}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(PHOTO, kind, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    picture = open_picture(data, 3)
    assert picture.shape == upright.size[::-1]
    np.testing.assert_array_equal(picture.pixels(), upright)
    assert picture.draft(2).shape[:2] == tuple(side // 2 for side in picture.shape)


def with_segment(jpeg: bytes, marker: int, content: bytes, fill: int = 0) -> bytes:
    """The JPEG with one more segment right after its start."""
    size = (len(content) + 2).to_bytes(2, "big")
    segment = b"\xff" * fill + b"\xff" + bytes([marker]) + size + content
    return jpeg[:2] + segment + jpeg[2:]


@pytest.mark.parametrize(("before", "fill"), [(0, 0), (5_000, 0), (60_000, 3)])
def test_orientation_is_found_behind_long_segments(before, fill):
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(PHOTO, "JPEG", exif=exif)
    for _ in range(2):
        data = with_segment(data, 0xE2, bytes(before), fill)
    assert Image.open(io.BytesIO(data)).getexif()[0x0112] == 6
    picture = open_picture(data, 3)
    assert picture.shape == (48, 40)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(picture.pixels(), upright)


def test_orientation_in_xmp_is_applied_as_in_pillow():
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="8"/>'
    data = with_segment(encoded(PHOTO, "JPEG"), 0xE1, xmp)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert upright.size == (40, 48)
    np.testing.assert_array_equal(decode(data, 3), upright)


def test_the_word_exif_in_the_pixels_means_nothing():
    data = encoded(PHOTO, "JPEG")
    plain = decode(data, 3)
    marked = with_segment(data, 0xE2, b"Exif\0\0no such thing")
    np.testing.assert_array_equal(decode(marked, 3), plain)


@pytest.mark.parametrize("kind", ["EPS", "PPM", "TGA", "ICO", "PCX", "PDF", "JPEG2000"])
def test_no_reader_but_those_of_common_kinds_sees_the_bytes(kind, monkeypatch):
    data = encoded(PHOTO, kind)
    ran = []
    monkeypatch.setattr("subprocess.check_call", lambda *a, **k: ran.append(a))
    with pytest.raises(UnreadableImage, match="no image of a known kind"):
        decode(data, 3)
    assert not ran


def test_the_bytes_decide_the_kind_not_the_name():
    data = encoded(PHOTO, "PNG")
    np.testing.assert_array_equal(decode(data, 3), PHOTO)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
@pytest.mark.filterwarnings("ignore:.*EXIF data:UserWarning")
def test_a_truncated_file_is_refused(kind):
    data = encoded(PHOTO, kind)
    for size in (20, len(data) // 2):
        with pytest.raises(UnreadableImage):
            decode(data[:size], 3)
    with pytest.raises(UnreadableImage):
        open_picture(data[: len(data) // 2], 3).draft(1)


def test_empty_and_foreign_files_are_refused():
    with pytest.raises(UnreadableImage, match="the file is empty"):
        decode(b"", 3)
    for data in (b"hello", b"\xff\xd8hello", b"{}" * 1000):
        with pytest.raises(UnreadableImage, match="no image of a known kind"):
            decode(data, 3)


def test_stray_bytes_that_pillow_forgives_are_forgiven():
    data = encoded(PHOTO, "JPEG", quality=90)
    stray = data[:-2] + b"\x00\x00\x00" + data[-2:]
    np.testing.assert_array_equal(decode(stray, 3), decode(data, 3))


def test_float_pixels_are_refused():
    data = encoded(Image.fromarray(np.ones((3, 3), np.float32)), "TIFF")
    with pytest.raises(UnreadableImage, match="float pixels have no agreed range"):
        decode(data, 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
def test_a_bomb_is_refused_before_it_is_decoded(kind, monkeypatch):
    data = encoded(PHOTO, kind)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40 * 48 - 1)
    with pytest.raises(UnreadableImage, match="pixels"):
        open_picture(data, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(UnreadableImage, match="pixels"):
        open_picture(data, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_bytes_never_raise_anything_else():
    random = np.random.default_rng(0)
    outcomes = set()
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"):
        data = encoded(PHOTO, kind)
        for _ in range(60):
            damaged = bytearray(data)
            for place in random.integers(0, len(data), random.integers(1, 4)):
                damaged[place] = random.integers(256)
            try:
                outcomes.add(decode(bytes(damaged), 3).ndim)
            except UnreadableImage:
                outcomes.add("refused")
    assert outcomes == {3, "refused"}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "pixels"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shrink", [1, 2, 4, 8, 16])
def test_a_draft_is_the_mean_over_squares(kind, channels, shrink):
    photo = smooth_pixels(96, 64)
    image = (
        photo if kind == "pixels" else encoded(Image.fromarray(photo), kind, **_FULL)
    )
    picture = open_picture(image, channels)
    draft = picture.draft(shrink)
    whole = picture.pixels().astype(float)
    squares = whole.reshape(96 // shrink, shrink, 64 // shrink, shrink, channels)
    assert draft.shape == (96 // shrink, 64 // shrink, channels)
    assert np.abs(draft.astype(float) - squares.mean(axis=(1, 3))).mean() < 1.5


def test_pixels_of_any_layout_are_taken():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(decode(grey, 3)[..., 2], grey)
    np.testing.assert_array_equal(decode(grey[..., None], 1)[..., 0], grey)
    luma = np.asarray(Image.fromarray(smooth_pixels(5, 6)).convert("L"))
    np.testing.assert_array_equal(decode(smooth_pixels(5, 6), 1)[..., 0], luma)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_follow_the_rules_of_files(mode, channels):
    image = PHOTO.convert(mode)
    if mode.endswith("A"):
        image.putalpha(Image.fromarray(smooth_pixels(40, 48, seed=5)[..., 0]))
    pixels = decode(np.asarray(image), channels)
    assert pixels.shape == (40, 48, channels)
    np.testing.assert_array_equal(pixels, decode(encoded(image, "PNG"), channels))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), np.float32),
        np.zeros((4, 4, 5), np.uint8),
        np.zeros((2, 4, 4, 3), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_pixels_of_another_layout_are_refused(pixels):
    with pytest.raises(UnreadableImage, match=r"must be uint8 \[Y, X\] or"):
        decode(pixels, 3)


def test_a_jpeg_that_promises_more_rows_than_it_has_is_unreadable():
    whole = encoded(Image.fromarray(smooth_pixels(16, 16)), "JPEG")
    start = whole.index(b"\xff\xc0") + 5
    lying = whole[:start] + (900).to_bytes(2, "big") + whole[start + 2 :]
    picture = open_picture(lying, 3)
    for read in (picture.pixels, lambda: picture.draft(2)):
        with pytest.raises(UnreadableImage, match="its data ends early"):
            read()


@pytest.mark.parametrize(
    ("mode", "kind", "colours"),
    [
        ("L", "JPEG", False),
        ("RGB", "JPEG", True),
        ("CMYK", "JPEG", True),
        ("1", "PNG", False),
        ("LA", "PNG", False),
        ("I;16", "PNG", False),
        ("RGBA", "PNG", True),
    ],
)
def test_the_header_tells_colours(mode, kind, colours):
    image = Image.new("I;16", (4, 4)) if mode == "I;16" else PHOTO.convert(mode)
    assert has_colour(encoded(image, kind)) == colours


def test_the_channels_of_pixels_tell_colours_and_what_is_no_image_has_none():
    found = [has_colour(np.zeros((2, 2, c), np.uint8)) for c in (1, 2, 3, 4)]
    assert found == [False, False, True, True]
    assert not has_colour(np.zeros((2, 2), np.uint8))
    assert not has_colour(b"") and not has_colour(b"hello")
