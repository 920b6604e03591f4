"""Low-rank adapters on a transformer that the engine itself has trained on other text.

A transformer of characters is trained on the reference manual that Python brings (pydoc_data), by
FedAvg over clients that have a chapter each. Then clients that have a module of Python's source
code each train adapters of it: only these are trained and sent; the base is one for all. Nothing is
downloaded. `--quick` takes fewer rounds of a smaller model: three minutes on two cores.

    python examples/lora_transformer.py
"""

import argparse
import importlib
import inspect
import string
from pydoc_data import topics

import jax
import numpy as np

import maxfl

CHARACTERS = string.printable[:95] + "\n"
LENGTH = 32
LONGEST = 12_000  # characters of a client
MODULES = [
    "argparse", "ast", "calendar", "configparser", "csv", "dataclasses", "difflib", "doctest",
    "fractions", "ftplib", "gettext", "imaplib", "inspect", "ipaddress", "locale", "mailbox",
    "optparse", "pickle", "platform", "plistlib", "random", "shutil", "smtplib", "statistics",
    "subprocess", "tarfile", "textwrap", "tokenize", "traceback", "typing", "uuid", "zipfile",
]  # fmt: skip


def windows(text):
    """Return sequences of tokens and their next tokens, [n, LENGTH]; 0 is padding."""
    number = {character: i + 1 for i, character in enumerate(CHARACTERS)}
    tokens = np.array([number[c] for c in text if c in number], np.int32)
    count = (len(tokens) - 1) // LENGTH
    x, y = (tokens[i : i + count * LENGTH].reshape(count, LENGTH) for i in (0, 1))
    return x, y


def federation(texts, unseen):
    """Make a client of each text: of ten sequences one is for tests."""
    train, test = [], []
    for x, y in (windows(text[:LONGEST]) for text in texts):
        is_test = np.arange(len(x)) % 10 == 9
        train.append((x[~is_test], y[~is_test]))
        test.append((x[is_test], y[is_test]))
    return maxfl.Federation.from_clients(train, test, unseen=unseen)


def chapters():
    """Return the longer chapters of the manual."""
    return [text for text in topics.topics.values() if len(text) > 4000]


def sources():
    """Return Python's own source code, a text for each module."""
    return [inspect.getsource(importlib.import_module(name)) for name in MODULES]


def main(width=128, depth=2, rank=4, base_rounds=300, rounds=100, steps=10):
    transformer = maxfl.transformer(
        vocabulary=len(CHARACTERS) + 1, length=LENGTH, width=width, depth=depth, dropout=0.0
    )
    training = maxfl.Training(
        rounds=base_rounds, cohort=10, local_steps=steps, batch_size=16, local_lr=0.3,
        evaluate_every=max(base_rounds // 5, 1),
    )  # fmt: skip
    manual = federation(chapters(), unseen=4)
    history = maxfl.simulate(
        manual, transformer, maxfl.fedavg(), training, requirement=maxfl.fixed(2.0)
    )
    params = jax.tree.map(lambda leaf: leaf[0], history.params)
    print(f"perplexity of the manual: {history.test_metric('seen')[0, -1]:.2f}")

    model = maxfl.lora(transformer, rank, r"attention|up|down", params=params)
    counts = maxfl.count_parameters(model)
    print(f"{counts.frozen:,} frozen parameters, {counts.trained:,} trained ones")
    code = federation(sources(), unseen=8)
    history = maxfl.simulate(
        code, model, maxfl.maxfl(),
        training._replace(rounds=rounds, evaluate_every=max(rounds // 5, 1)),
        requirement=maxfl.fixed(2.7),
    )  # fmt: skip
    by_round = ", ".join(f"{value:.2f}" for value in history.test_metric("seen")[0])
    print(f"perplexity of code, by rounds of adapters: {by_round}")
    print(f"GM-Appeal of modules unseen in training: {history.gm_appeal('unseen')[0, -1]:.2f}")
    return history


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds of a smaller model")
    quick = parser.parse_args().quick
    main(**({"width": 32, "base_rounds": 30, "rounds": 20} if quick else {}))
