"""A simulated Acme driver. It imports nothing of the reader, so that both cannot share a mistake."""
