"""``maxfl list``: everything that a file can name."""

from support.own_modules import METHOD


def test_all_names_are_listed(maxfl):
    text = maxfl("list")
    for word in ("algorithm.name", "ditto", "strength = 0.1", "model.name", "hidden = [64, 30]"):
        assert word in text
    for word in ("model.loss", "huber_delta = 1.0", "data.source", "digits", "requirement.kind"):
        assert word in text


def test_one_is_shown_whole(maxfl, own_code):
    own_code(own_method=METHOD)
    text = maxfl("list", "own_method:lossweighted")
    assert "own_method:lossweighted (own_method.py)" in text
    assert "Return a method in which clients count by a power of their loss." in text
    assert "power = 1.0   p; 0 is FedAvg" in text
    assert "Hochreiter, Schmidhuber" in maxfl("list", "lstm")
    assert "there is no such name. Did you mean 'ditto'?" in maxfl("list", "dito", code=2)
    assert "Error: there is no module own_other" in maxfl("list", "own_other:f", code=2)
