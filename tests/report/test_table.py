"""Tables print the same digits in every form."""

from maxfl.report.table import Statistic, Table, to_csv, to_html, to_latex, to_markdown


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
