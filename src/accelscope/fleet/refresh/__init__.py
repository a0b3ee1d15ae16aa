"""The engine: every cluster and every source of it in a task of its own, so that none waits for another."""
