"""How fast tarry is: ``python -m bench`` measures every row of docs/evidence/benchmarks.md and prints one table.

__main__   the command
harness    a private server, alternating turns, readings
table      prints and writes the results
rows/      one module for each row; its docstring says what it measures
"""
