"""Tables print the same digits in every form."""

from maxfl.report.table import (
    Estimate,
    Probability,
    Statistic,
    Table,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
)


def test_statistics_are_printed_alike_everywhere():
    statistics = (Statistic.of([0.1, 0.3], 2), Statistic.of([0.5], 1, percent=True),
               Statistic.of([-0.001], 2, signed=True), Statistic.of([], 2))  # fmt: skip
    assert [s.printed for s in statistics] == [("0.20", "0.14"), ("50.0", ""), ("+0.00", ""),
                                            ("n/a", "")]  # fmt: skip
    table = Table("t", "Title", ("method", "a", "b, %", "c", "d"), [("x | y_1", *statistics)])
    assert "| x \\| y_1 | 0.20 ± 0.14 | 50.0 | +0.00 | n/a |" in to_markdown(table)
    assert to_csv(table).splitlines() == [
        'method,a,a (std),"b, %","b, % (std)",c,c (std),d,d (std)',
        "x | y_1,0.20,0.14,50.0,,+0.00,,,",
    ]
    assert r"x \textbar{} y\_1 & $0.20 \pm 0.14$ & $50.0$ & $+0.00$ & n/a \\" in to_latex(table)
    assert 'data-sort="0.20">0.20 <small>± 0.14</small>' in to_html(table)


def test_intervals_and_p_values_are_printed_alike_everywhere():
    nan = float("nan")
    cells = (Estimate.of((0.123, 0.02, 0.2), 1, percent=True), Estimate.of((0.5, nan, nan), 2),
             Estimate.of((-0.01234, -0.1, 0.001), None), Probability(0.0304), Probability(1e-9),
             Probability(nan))  # fmt: skip
    headings = ("x", "a, points", "b", "c", "p", "q", "r")
    table = Table("t", "Title", headings, [("y", *cells), ("z", *cells)])
    assert (
        "| y | +12.3 (+2.0 to +20.0) | +0.50 | -0.012 (-0.100 to +0.001) | 0.030 | <0.001 | n/a |"
    ) in to_markdown(table)
    assert to_csv(table).splitlines()[:2] == [
        'x,"a, points","a, points (low)","a, points (high)",b,b (low),b (high),'
        "c,c (low),c (high),p,q,r",
        "y,+12.3,+2.0,+20.0,+0.50,,,-0.012,-0.100,+0.001,0.030,<0.001,",
    ]
    assert r"$+12.3$ ($+2.0$ to $+20.0$) & $+0.50$" in to_latex(table)
    assert r"0.030 & $<$0.001 & n/a" in to_latex(table)
    assert 'data-sort="+12.3">+12.3 <small>(+2.0 to +20.0)</small>' in to_html(table)
    assert 'data-sort="1e-09">&lt;0.001' in to_html(table)


def test_halves_are_rounded_alike_wherever_they_stand():
    means = [0.415, 0.1 + 0.2 + 0.115, 0.41500000000000004, 0.41499999999999998]
    assert {Statistic.of([v], 2).printed[0] for v in means} == {"0.42"}
    assert {Statistic.of([v], 0, percent=True).printed[0] for v in means} == {"42"}
    assert {Estimate.of((v, v, v), 2).texts[0] for v in means} == {"+0.42"}
    assert {Estimate.of((v, v, v), 0, percent=True).texts[0] for v in means} == {"+42"}
    assert Statistic.of([-0.0001], 2, signed=True).printed[0] == "+0.00"
