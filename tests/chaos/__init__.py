"""The proof: real processes under seeded faults write down what they did and saw, and a checker judges it.

python -m tests.chaos --help        docs/reliability.md says what is measured, and how

plan        a seed → the faults, and when
scene       the servers of a family, and what can be done to them
actors      producers, consumers, workers, …: one process and one diary each
diary       how a diary is written and read
checker     reads the diaries of a run; judge looks at one job. Nothing of tarry is used there.
report      the results of the runs → docs/reliability.json and docs/reliability.md
"""
