"""Which pixels places and taps meet, by hand."""

from maxfl.models.gpu.places import (
    Axis,
    Geometry,
    even,
    pooled_geometries,
    transposed,
    window_geometry,
)

ONE = (1, 1)


def test_a_form_by_hand():
    # Seven rows with a zero above and none below: windows of three begin at -1, 1 and 3. Five
    # columns: windows of columns 0 and 2, 1 and 3, 2 and 4.
    geometry = window_geometry((7, 5), (3, 2), (2, 1), ((1, 0), (0, 0)), (1, 2))
    assert geometry.rows == Axis(places=3, pixels=7, taps=3, stride=2, dilation=1, offset=-1)
    assert geometry.columns == Axis(places=3, pixels=5, taps=2, stride=1, dilation=2, offset=0)
    assert (geometry.places, geometry.taps) == (9, 6)
    assert not geometry.rows.is_inside
    assert geometry.columns.is_inside


def test_what_is_cut_off_is_no_pixel():
    geometry = window_geometry((6, 6), (1, 1), ONE, ((-1, -2), (0, 0)), ONE)
    assert geometry.rows == Axis(places=3, pixels=6, taps=1, stride=1, dilation=1, offset=1)


def test_transposed_is_where_gradients_come_from():
    # Outputs 0, 1, 2 lie at 0, 2, 4 of five with zeros between. Pixel 1 was met by tap 2 at output
    # 0 and by tap 0 at output 1: pixel + 1 - tap is 0 and 2.
    geometry = window_geometry((7, 7), (3, 3), (2, 2), ((1, 0), (1, 0)), ONE)
    axis = transposed(geometry).rows
    assert axis == Axis(places=7, pixels=5, taps=3, stride=1, dilation=-1, offset=1)
    assert [axis.stride * 1 + axis.dilation * tap + axis.offset for tap in (2, 0)] == [0, 2]


def test_pooled_geometries_are_the_places_that_are_pooled():
    geometry = window_geometry(
        (6, 5), (2, 2), ONE, ((0, 0), (0, 0)), ONE
    )  # 5 x 4 places, 2 x 2 pooled
    geometries = pooled_geometries(geometry)
    rows, columns = Axis(2, 6, 2, 2, 1, 0), Axis(2, 5, 2, 2, 1, 0)
    assert geometries[0] == Geometry(rows, columns)
    assert geometries[3] == Geometry(rows._replace(offset=1), columns._replace(offset=1))


def test_a_row_left_over_is_not_pooled():
    geometry = window_geometry((6, 5), (2, 2), ONE, ((0, 0), (0, 0)), ONE)
    assert even(geometry) == geometry._replace(rows=geometry.rows._replace(places=4))
    assert pooled_geometries(even(geometry)) == pooled_geometries(geometry)
