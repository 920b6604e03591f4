"""Tables of a user's own: from files and frames to a data set with clients.

Here: what a table is (``table``), where it comes from (``files``, ``frames``), what its columns are
for (``roles``), and how each becomes numbers (``categories``, ``labels``, ``features``,
``columns``). What has to wait until training rows are known, so that nothing of the test data is in
it, is ``inputs``. How clients are formed is ``partition``'s and ``assemble``'s, a folder above.
"""
