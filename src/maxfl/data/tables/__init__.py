"""Tables of a user's own: from files and frames to a data set with clients.

Here: what a table is (``table``), where it comes from (``files``, ``frames``), what its columns are
for (``roles``), and how each becomes numbers (``categories``, ``labels``, ``features``,
``columns``). Means and deviations have to wait until training rows are known, so that nothing of
the test data is in them: ``inputs``. What the values of a text column are, and which is the
smallest of large whole numbers, is known of the whole table, test rows and unseen clients included.
How clients are formed is ``partition``'s and ``assemble``'s, a folder above.
"""
