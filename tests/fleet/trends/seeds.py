"""Seeds of the nodes of the trial.

The evaluation runs once, on a seed that was committed before and that no development run has used.
"""

DEVELOPMENT = (1, 2, 3, 4, 5, 6, 7, 8, 11)
EVALUATION = 7_310_452
