"""Reports: tables, figures, one page and model cards from folders of results."""
