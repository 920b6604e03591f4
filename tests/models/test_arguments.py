"""Arguments of models that make no sense are refused with what to do."""

import pytest

import maxfl


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: maxfl.cnn((28,), 3), r"expected \(height, width\)"),
        (lambda: maxfl.cnn((0, 28), 3), "shape = 0"),
        (lambda: maxfl.cnn((28, 28), 0), "classes = 0"),
        (lambda: maxfl.cnn((28, 28), 3, channels=()), "the channels of each convolution"),
        (lambda: maxfl.cnn((28, 28), 3, channels="32"), "the channels of each convolution"),
        (lambda: maxfl.cnn((28, 28), 3, conv_padding="full"), "expected same or valid"),
        (lambda: maxfl.cnn((3, 3), 3), "3 x 3 are too small for 2 convolutions"),
        (lambda: maxfl.cnn((28, 28), 3, kernel=40, conv_padding="valid"), "too small"),
        (lambda: maxfl.cnn((28, 28), 3, dropout=1.0), "dropout"),
        (lambda: maxfl.resnet((32, 32), 3, groups=5), "do not divide width = 16"),
        (lambda: maxfl.lstm(5, hidden=()), "the units of each recurrent layer"),
        (lambda: maxfl.lstm(0), "vocabulary = 0"),
        (lambda: maxfl.transformer(5, 4, heads=3), "do not divide width = 128"),
        (lambda: maxfl.transformer(5, 4, classes=0), "classes = 0"),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: maxfl.logistic(4, 2),
        lambda: maxfl.mlp(4, [3], 2, loss=maxfl.losses.huber(2)),
        lambda: maxfl.cnn([28, 28], 3),
        lambda: maxfl.resnet((32, 32, 3), 3),
        lambda: maxfl.lstm(5),
        lambda: maxfl.transformer(5, 4, loss=maxfl.losses.next_token(3)),
    ],
)
def test_equal_arguments_give_one_model(make):
    assert make() is make()
