"""How fast tarry is: ``python -m bench`` measures every row of docs/benchmarks.md and prints one table.

__main__   the command
harness    a private server, turns, readings
table      what is shown and written
rows/      one module a row; its docstring says what it measures
"""
