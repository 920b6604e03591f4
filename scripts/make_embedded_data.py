"""Make the Fashion-MNIST subset that is shipped inside the package.

Source: Debian's package `dataset-fashion-mnist` (MIT, Zalando SE), fetched with
`apt-get download` and unpacked with `dpkg-deb`, so nothing is installed. Takes the first 1,200
training images of each of the ten labels, in the order of the publisher's file.

    python scripts/make_embedded_data.py                 download the package and write the file
    python scripts/make_embedded_data.py --package FILE  use a package that is already there
"""

import argparse
import gzip
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PER_LABEL = 1200
PACKAGE = "dataset-fashion-mnist"
TARGET = Path(__file__).parent.parent / "src/maxfl/data"


def main() -> None:
    """Download, unpack, select, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, help="a downloaded .deb file")
    given = parser.parse_args().package
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        if given is None:
            subprocess.run(["apt-get", "download", PACKAGE], cwd=root, check=True)
            given = next(root.glob("*.deb"))
        subprocess.run(["dpkg-deb", "--extract", given, root], check=True)
        files = root / "usr/share/datasets/fashion-mnist"
        y = _idx(files / "train-labels-idx1-ubyte.gz", header=8)
        x = _idx(files / "train-images-idx3-ubyte.gz", header=16).reshape(len(y), 28, 28)
        notice = (root / "usr/share/doc" / PACKAGE / "copyright").read_text()
    rows = np.sort(np.concatenate([np.flatnonzero(y == label)[:PER_LABEL] for label in range(10)]))
    np.savez_compressed(TARGET / "fashion_mnist_12k.npz", x=x[rows], y=y[rows])
    (TARGET / "FASHION-MNIST-LICENSE.txt").write_text(notice)
    size = (TARGET / "fashion_mnist_12k.npz").stat().st_size
    print(f"{len(rows)} images, {size / 1e6:.2f} MB")


def _idx(path: Path, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


if __name__ == "__main__":
    main()
