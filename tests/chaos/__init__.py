"""The proof: real processes under seeded faults write down what they did and saw, and a checker judges it.

python -m tests.chaos --help        docs/reliability.md says what is measured, and how

plan        a seed → the faults, and when
environment the servers of a family, and what can be done to them
clients     producers, consumers, workers, …: one process and one history each
history     how a history is written and read
checker     reads the histories of a run; judge looks at one job. Nothing of tarry is used there.
report      the results of the runs → docs/reliability.json and docs/reliability.md
"""
