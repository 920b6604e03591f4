"""Small files in LEAF's formats."""

import json

import numpy as np


def write_leaf(path, users, changes=()):
    """Write a file of users, {name: (x, y)}; changes replace its keys, None deletes one."""
    content = {
        "users": [*users],
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {name: {"x": x, "y": y} for name, (x, y) in users.items()},
        **dict(changes),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    return path


def write_split(folder, train, test):
    """Write what ``preprocess.sh -t sample`` leaves: train/ and test/, with a file each."""
    write_leaf(folder / "train/all_data_0_niid_0_keep_0_train_9.json", train)
    write_leaf(folder / "test/all_data_0_niid_0_keep_0_test_9.json", test)
    return folder


def images(count, seed=0):
    """FEMNIST's samples of a writer: pixels in steps of 1/255, and labels."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (count, 784))
    return (pixels / 255).tolist(), rng.integers(0, 62, count).tolist()


def windows(text):
    """Shakespeare's samples of a role, made as LEAF makes them."""
    starts = range(len(text) - 80)
    return [text[i : i + 80] for i in starts], [text[i + 80] for i in starts]


def comments(*texts, length=4):
    """Reddit's samples of an author, a comment each, made as LEAF makes them."""
    x, y = [], []
    for text in texts:
        words = text.split()
        x.append(_rows(["<BOS>", *words, "<EOS>"], length))
        counts = [[int(word != "<PAD>") for word in row] for row in x[-1]]
        targets = _rows([*words, "<EOS>", "<PAD>"], length)
        y.append({"subreddit": "r", "target_tokens": targets, "count_tokens": counts})
    return x, y


def _rows(words, length):
    padded = [*words, *["<PAD>"] * (-len(words) % length)]
    return [padded[i : i + length] for i in range(0, len(padded), length)]
