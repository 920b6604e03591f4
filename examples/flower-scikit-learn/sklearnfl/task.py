"""The model and the data: SGDClassifier of scikit-learn, 200 Fashion-MNIST images a client."""

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

from maxfl.flower.example_data import Share, fashion_mnist_share

LABELS = np.arange(10)
Split = dict[str, Share]
"""A client's data by "train", "judging" and "test": images as rows of pixels .x, labels .y."""


def load(client: int, clients: int) -> Split:
    """Load the data of one of the clients."""
    return fashion_mnist_share(client, clients)


def init() -> SGDClassifier:
    """Return the model before the first round; scikit-learn would make its arrays when it fits."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.002, random_state=0)
    return with_arrays(model, np.zeros((10, 784), np.float32), np.zeros(10, np.float32))


def with_arrays(model: SGDClassifier, coef: np.ndarray, intercept: np.ndarray) -> SGDClassifier:
    """Return a model with these weights; it changes its arrays in place, so they are copied."""
    model.classes_ = LABELS
    model.coef_, model.intercept_ = coef.copy(), intercept.copy()
    return model


def arrays(model: SGDClassifier) -> dict[str, np.ndarray]:
    """Return the weights of a model by name."""
    return {"coef": model.coef_, "intercept": model.intercept_}


def loss(model: SGDClassifier, data: Share) -> float:
    """Compute the mean cross-entropy."""
    return float(log_loss(data.y, model.predict_proba(data.x), labels=LABELS))


def accuracy(model: SGDClassifier, data: Share) -> float:
    """Compute the share of images that are recognised."""
    return float(model.score(data.x, data.y))


def train(model: SGDClassifier, data: Share, epochs: int) -> SGDClassifier:
    """Go through the data a few times."""
    for _ in range(epochs):
        model.partial_fit(data.x, data.y, classes=LABELS)
    return model
