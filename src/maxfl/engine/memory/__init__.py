"""What a run takes of a device's memory, predicted before anything is compiled.

Here belongs what reads a traced program (``dataflow``) and what adds up a run's parts
(``footprint``); what to tell people where memory or disk is short belongs to ``engine.resources``.
"""
