"""Writes images of all kinds with Pillow, and beside each the pixels that Pillow makes of it.

    python3 make_images.py FOLDER    writes FOLDER/cases.txt: lines "kind file raw-file channels width height arguments"

decode: file -> convert("L" or "RGB"); resize: a PNG -> resize((width, height), BILINEAR); centre: resize of the
shorter side and center crop, as torchvision's Resize and CenterCrop."""
import pathlib
import struct
import sys
import zlib

import numpy
from PIL import Image

FOLDER = pathlib.Path(sys.argv[1])
MODES = {1: "L", 3: "RGB"}
cases = []


def photo(width, height, seed=0):
    """Smooth colors with some noise: what JPEG is made for."""
    y, x = numpy.mgrid[0:height, 0:width]
    noise = numpy.random.default_rng(seed).integers(0, 40, (height, width, 3))
    waves = [numpy.sin((x * a + y * b) / 9.0) * 100 + 108 for a, b in ((1, 0), (0.3, 1), (1, 1))]
    return Image.fromarray(numpy.clip(numpy.stack(waves, -1) + noise, 0, 255).astype(numpy.uint8))


def expect(kind, name, channels, image, *arguments):
    raw = f"{name}.{len(cases)}.raw"
    (FOLDER / raw).write_bytes(image.tobytes())
    cases.append(" ".join(map(str, (kind, name, raw, channels, *image.size, *arguments))))


def expect_decoded(name):
    for channels, mode in MODES.items():
        with Image.open(FOLDER / name) as image:
            expect("decode", name, channels, image.convert(mode))


def save(image, name, **options):
    image.save(FOLDER / name, **options)
    expect_decoded(name)


def png16(name, values):
    """Pillow writes no 16-bit color; the upper bytes are what convert("RGB") takes of it."""
    height, width, channels = values.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    (FOLDER / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
                                + chunk(b"IEND", b""))
    upper = (values >> 8).astype(numpy.uint8)
    image = Image.fromarray(upper[:, :, 0] if channels == 1 else upper)
    for wanted, mode in MODES.items():
        expect("decode", name, wanted, image.convert(mode))


def main():
    color = photo(61, 43)
    for subsampling in (0, 1, 2):
        save(color, f"colour-{subsampling}.jpg", quality=90, subsampling=subsampling)
    save(color, "progressive.jpg", quality=80, progressive=True)
    save(color.convert("L"), "grey.jpeg", quality=90)
    save(color.convert("CMYK"), "inks.jpg", quality=90)
    save(color, "colour.png")
    save(color.convert("L"), "grey.png")
    save(color.convert("1"), "bits.png")
    save(color.quantize(100), "palette.png")
    save(color.quantize(16), "transparent-palette.png", transparency=3)
    alpha = color.copy()
    alpha.putalpha(photo(61, 43, 1).convert("L"))
    save(alpha, "alpha.png")
    save(alpha.convert("LA"), "grey-alpha.png")
    png16("deep.png", numpy.random.default_rng(3).integers(0, 65536, (21, 30, 3)))
    png16("deep-grey.png", numpy.random.default_rng(4).integers(0, 65536, (21, 30, 1)))
    big = photo(197, 83, 2)
    big.save(FOLDER / "big.png")
    for size in ((32, 32), (400, 10), (8, 300), (197, 20), (50, 83), (1, 1)):
        expect("resize", "big.png", 3, big.resize(size, Image.BILINEAR))
    for shorter, size in ((64, 56), (32, 31), (99, 90)):
        longer = int(shorter * 197 / 83)
        whole = big.resize((longer, shorter), Image.BILINEAR)
        left, top = int(round((longer - size) / 2.0)), int(round((shorter - size) / 2.0))
        expect("centre", "big.png", 3, whole.crop((left, top, left + size, top + size)), shorter)
    (FOLDER / "cases.txt").write_text("\n".join(cases) + "\n")


if __name__ == "__main__":
    main()
