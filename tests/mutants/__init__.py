"""Planted faults: does the suite notice each? ``__main__`` says how a fault is tried, and in which order tests are asked.

Run:  ``make mutants`` tries what has no verdict yet; in ``tests``, ``python -m mutants NAME`` one anew.
Give: a table of planted.toml, by a name that says what goes wrong: ``file`` below src/tarry, ``old`` that stands there once, ``new``,
      ``why``. drawn.toml has the same, drawn by chance: ``python -m mutants.draw --seed N >> mutants/drawn.toml``.
      ``python -m mutants.compare --help``: what the tests of two commits say of 60 new faults.
Get:  results.json has for each fault the test that noticed it. A fault that none notices needs a test, or ``harmless`` with a
      reason in its table. test_lists.py fails for a fault without a verdict, and for one whose ``old`` is gone.
Add:  a fault with each promise that a test is to keep. For a new folder of tests: reach.FOLDERS; for the tests that are asked
      first about a part of the source: BESIDE in ``__main__``.
"""
