"""Which pixels places and taps meet, by hand."""

from maxfl.models.gpu.places import Axis, Form, quarters, turned, windows_form

ONE = (1, 1)


def test_a_form_by_hand():
    # Seven rows with a zero above and none below: windows of three begin at -1, 1 and 3. Five
    # columns: windows of columns 0 and 2, 1 and 3, 2 and 4.
    form = windows_form((7, 5), (3, 2), (2, 1), ((1, 0), (0, 0)), (1, 2))
    assert form.rows == Axis(places=3, pixels=7, taps=3, up=2, step=1, shift=-1)
    assert form.columns == Axis(places=3, pixels=5, taps=2, up=1, step=2, shift=0)
    assert (form.places, form.taps) == (9, 6)
    assert not form.rows.is_inside
    assert form.columns.is_inside


def test_what_is_cut_off_is_no_pixel():
    form = windows_form((6, 6), (1, 1), ONE, ((-1, -2), (0, 0)), ONE)
    assert form.rows == Axis(places=3, pixels=6, taps=1, up=1, step=1, shift=1)


def test_turned_is_where_gradients_come_from():
    # Outputs 0, 1, 2 lie at 0, 2, 4 of five with zeros between. Pixel 1 was met by tap 2 at output
    # 0 and by tap 0 at output 1: pixel + 1 - tap is 0 and 2.
    form = windows_form((7, 7), (3, 3), (2, 2), ((1, 0), (1, 0)), ONE)
    axis = turned(form).rows
    assert axis == Axis(places=7, pixels=5, taps=3, up=1, step=-1, shift=1)
    assert [axis.up * 1 + axis.step * tap + axis.shift for tap in (2, 0)] == [0, 2]


def test_quarters_are_the_places_that_are_pooled():
    form = windows_form((6, 5), (2, 2), ONE, ((0, 0), (0, 0)), ONE)  # 5 x 4 places, 2 x 2 pooled
    forms = quarters(form)
    rows, columns = Axis(2, 6, 2, 2, 1, 0), Axis(2, 5, 2, 2, 1, 0)
    assert forms[0] == Form(rows, columns)
    assert forms[3] == Form(rows._replace(shift=1), columns._replace(shift=1))
