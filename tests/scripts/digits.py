"""Makes images like MNIST's out of scikit-learn's digits, for tests and first runs without a dataset.

digits.py [--source data/digits.csv.gz] --output FOLDER [--force]

The source is sklearn/datasets/data/digits.csv.gz: 1,797 images of 8 x 8 values from 0 to 16, each with its label. An
image becomes 24 x 24 by bilinear resampling, as Pillow's, of its values times 255 / 16, and gets a border of 2 zeros.
Every sixth line is for testing. The output, FOLDER/{train,test}-{images-idx3,labels-idx1}-ubyte, depends on the source
alone. Files of these names with other content, such as the real MNIST, are replaced only with --force.
"""
import argparse
import gzip
import pathlib
import struct
import sys

SIDE, SCALED, BORDER, HIGHEST = 8, 24, 2, 16
FINAL = SCALED + 2 * BORDER
BITS = 22  # of a weight's fraction, as in Pillow


def taps():
    """For each place of a scaled row: [(place in the source, weight)]."""
    scale = SIDE / SCALED
    for place in range(SCALED):
        center = (place + 0.5) * scale
        near = range(max(0, int(center - 0.5)), min(SIDE, int(center + 1.5)))
        weights = [max(0.0, 1.0 - abs(at + 0.5 - center)) for at in near]
        yield [(at, int(0.5 + weight / sum(weights) * (1 << BITS))) for at, weight in zip(near, weights)]


TAPS = list(taps())


def resize_rows(rows):
    half = 1 << (BITS - 1)
    return [[(half + sum(row[at] * weight for at, weight in place)) >> BITS for place in TAPS] for row in rows]


def image_of(values):
    scaled = [(value * 255 + HIGHEST // 2) // HIGHEST for value in values]
    rows = resize_rows([scaled[i:i + SIDE] for i in range(0, SIDE * SIDE, SIDE)])
    columns = resize_rows([list(column) for column in zip(*rows)])
    border = bytes(BORDER)
    image = b"".join(border + bytes(row) + border for row in zip(*columns))
    return bytes(BORDER * FINAL) + image + bytes(BORDER * FINAL)


def read(source):
    """[(image, label)]"""
    try:
        text = (gzip.open if source.suffix == ".gz" else open)(source, "rt", encoding="ascii").read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        sys.exit(f"'{source}' cannot be read: {error}; ./make.sh digits fetches it")
    digits = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split(",")
        values = [int(field) for field in fields if field.isdecimal()]
        if len(fields) != SIDE * SIDE + 1 or len(values) != len(fields) or max(values[:-1]) > HIGHEST or values[-1] > 9:
            sys.exit(f"'{source}' line {number} is no image of {SIDE} x {SIDE} values from 0 to {HIGHEST} and a label: "
                     "expected scikit-learn's sklearn/datasets/data/digits.csv.gz")
        digits.append((image_of(values[:-1]), values[-1]))
    return digits


def write(path, content, force):
    if path.exists() and path.read_bytes() != content:
        if not force:
            sys.exit(f"'{path}' is there already and holds something else: choose another --output, or add --force")
        path.unlink()
    path.write_bytes(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, default="data/digits.csv.gz")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--force", action="store_true")
    options = parser.parse_args()
    digits = read(options.source)
    options.output.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", [d for i, d in enumerate(digits, 1) if i % 6]), ("test", digits[5::6])):
        labels = struct.pack(">BBBBI", 0, 0, 8, 1, len(part)) + bytes(label for _, label in part)
        images = struct.pack(">BBBBIII", 0, 0, 8, 3, len(part), FINAL, FINAL) + b"".join(image for image, _ in part)
        write(options.output / f"{name}-labels-idx1-ubyte", labels, options.force)
        write(options.output / f"{name}-images-idx3-ubyte", images, options.force)
        print(f"{options.output}/{name}-images-idx3-ubyte: {len(part)} images of {FINAL} x {FINAL}")


if __name__ == "__main__":
    main()
