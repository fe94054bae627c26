"""The proof: real processes under seeded faults write down what they did and saw, and a checker judges it.

plan        a seed → the faults, and when
environment the servers of a family, and what can be done to them
clients     producers, consumers, workers, …: one process and one history each
history     how a history is written and read
checker     reads the histories of a run; judge looks at one job. Nothing of tarry is used there.
report      the results of the runs → docs/evidence/reliability.json and docs/evidence/reliability.md
drill       what doctor, the metrics and the log say when something breaks: ``make drill``, a table of its own

Run:  ``make chaos``, or ``python -m tests.chaos --help``; docs/evidence/reliability.md says what is measured, and how. The tests of this folder
      run a minute of mixed faults, and show the checker planted breaches.
Give: a family (what is done, on which servers, what is promised meanwhile), a seed, minutes.
Get:  exit code 1 if a promise was broken, with the seed and the shortest history of a job that shows it; a file of results.
Add:  a fault is a function of (run, dice) in environment.py. It does its harm, rests with ``run.rest(seconds)``, mends it, writes down
      what it may have cost with ``run.journal.note("undone" or "broken", …)``, and ends with ``healed(run, "name", since)``.
      A family is a row of families.py: its name, the fault and the promise in words, its servers, its faults and how often each.
      ``--family NAME --plan`` shows what it would do; ``--all --write`` puts it on the page.
      A breach is a name in judge.BREACHES, and a function in test_checker.py with ``@planted("name")``; a test asks for it.
"""
