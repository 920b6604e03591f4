"""``maxfl list``: everything that a file can name."""

from support.own_modules import DATA, METHOD, MODEL


def test_all_names_are_listed(maxfl):
    text = maxfl("list")
    for word in ("algorithm.name", "ditto", "strength = 0.1", "model.name", "hidden = [64, 30]"):
        assert word in text
    for word in ("model.loss", "huber_delta = 1.0", "data.source", "digits", "requirement.kind"):
        assert word in text
    assert "own-code.html" in text


def test_what_is_filled_in_is_no_setting(maxfl, own_code):
    own_code(own_model=MODEL, own_data=DATA)
    text = maxfl("list", "own_model:dense")
    assert "Filled in, where it makes a model: inputs, classes" in text
    assert "width = 4" in text.partition("setting")[2]
    assert "classes" not in text.partition("setting")[2]
    assert "Filled in, where it makes data: seed" in maxfl("list", "own_data:federation")


def test_a_requirement_shows_its_metric(maxfl):
    assert "the model's metric that decides" in " ".join(maxfl("list", "metric").split())
    assert "metric that decides" not in " ".join(maxfl("list", "fixed").split())


def test_one_is_shown_whole(maxfl, own_code):
    own_code(own_method=METHOD)
    text = maxfl("list", "own_method:lossweighted")
    assert "own_method:lossweighted (own_method.py)" in text
    assert "Return a method in which clients count by a power of their loss." in text
    assert "power = 1.0   p; 0 is FedAvg" in text
    assert "Filled in" not in text
    assert "Hochreiter, Schmidhuber" in maxfl("list", "lstm")
    assert "there is no such name. Did you mean 'ditto'?" in maxfl("list", "dito", code=2)
    assert "Error: there is no module own_other" in maxfl("list", "own_other:f", code=2)
