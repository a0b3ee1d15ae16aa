"""Recording and alert rules, and the files that they become."""
