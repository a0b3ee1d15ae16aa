"""Coverage-guided fuzzing of every parser with atheris: `make fuzz`.

What must be true of any answer is in `answers`. `__main__` shares the time out among the sources and runs
`one` as a process for each, since the engine ends its process when it is done.
"""
