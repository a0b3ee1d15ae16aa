"""What every parser of a saved output shares: the shape of its answer, and what it could not take."""
