"""How objects show themselves: never at length, and never with an error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.utils.display import counted, html_table, named, numbers, one_line, span
from support.small import MODEL, SMALL, simulation


def test_what_can_not_be_found_out_is_left_out():
    def fails():
        raise ValueError

    assert one_line("Thing", lambda: "two words") == "Thing(two words)"
    assert one_line("Thing", fails) == "Thing(…)"
    assert "<b>Thing</b>" in html_table("Thing", fails)


def test_of_many_names_the_rest_is_counted():
    assert named(np.array(["a", "b"])) == "a, b"
    assert named([1, 2, 3, 4, 5]) == "1, 2, 3, 4, 5"
    assert named(np.arange(2005)) == "0, 1, 2, 3, 4 and 2,000 more"


def test_tables_are_escaped():
    table = html_table("<a>", lambda: [("<b>", "x & <script>")])
    assert "&lt;a&gt;" in table
    assert "&lt;b&gt;" in table
    assert "x &amp; &lt;script&gt;" in table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3, "0.3"),
        (np.float32(0.5), "0.5"),
        (np.arange(3), "[0, 1, 2]"),
        ((1.0, [2, 3]), "[1.0, [2, 3]]"),
        (list(range(50)), "[0, 1, … 49]"),
        (range(10), "range(0, 10)"),
        (None, "None"),
        ("same", "'same'"),
        (jnp.zeros((2, 3)), "float32[2, 3]"),
        (jnp.zeros(()), "float32"),
    ],
)
def test_numbers_are_written_shortly(value, text):
    assert numbers(value) == text


def test_counts_and_ranges():
    assert [counted(n, "round") for n in (1, 2000)] == ["1 round", "2,000 rounds"]
    assert span([0.2, 0.24, 0.31], "{:.1f}".format) == "0.2 to 0.3"
    assert span(np.array([0.21, 0.24]), "{:.1f}".format) == "0.2"


def test_lines_of_the_public_objects():
    assert repr(SMALL) == (
        "Federation(own data: 8 clients, 6 seen, 1 to 40 train and 1 to 40 test samples each, "
        "x float32[4], 3 classes)"
    )
    numbers = SMALL._replace(classes=None, seen=8)
    assert repr(numbers).endswith("8 clients, 1 to 40 train and 1 to 40 test samples each, "
                                  "x float32[4], y int32)")  # fmt: skip
    assert repr(MODEL) == "Model(mlp 4-6-5-3: 83 trained parameters, cross-entropy, accuracy)"
    assert repr(maxfl.maxfl([0.1, 1.0])) == "maxfl(temperature=[0.1, 1.0], epsilon=0.001)"
    assert repr(maxfl.scaffold()) == "scaffold()"
    assert repr(simulation(maxfl.maxfl(), seed=range(2))) == (
        "Simulation(maxfl(temperature=1.0, epsilon=0.001) on own data, 8 clients; mlp 4-6-5-3; "
        "6 rounds of 3 clients, 2 configurations)"
    )


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (SMALL, "<td style='text-align:left'>8: 6 seen, 2 unseen</td>"),
        (MODEL, "83"),
        (maxfl.maxfl(0.3), "temperature"),
        (simulation(maxfl.maxfl()), "participation"),
        (maxfl.mlp((3,)), "of the federation"),
    ],
    ids=lambda thing: thing if isinstance(thing, str) else type(thing).__name__,
)
def test_notebooks_get_a_small_table(thing, words):
    table = thing._repr_html_()
    assert table.startswith("<table>")
    assert words in table
    assert len(table) < 2000


def test_nothing_fails_while_it_is_traced():
    """As it is when JAX writes an error message about it."""
    said = []

    def look(train, temperature):
        said.extend([repr(SMALL._replace(train=train)), repr(maxfl.maxfl()._replace(
            hparams=maxfl.maxfl().hparams._replace(temperature=temperature)))])  # fmt: skip

    jax.eval_shape(look, SMALL.train, 1.0)
    assert said == ["Federation(…)", "maxfl(temperature=float32, epsilon=0.001)"]
    empty = jax.tree.map(lambda _: None, maxfl.maxfl()._replace(hparams=()))
    assert repr(empty) == "None()"
    broken = maxfl.Model(lambda key: key.nothing, MODEL.apply, name="broken")
    assert repr(broken) == "Model(…)"
