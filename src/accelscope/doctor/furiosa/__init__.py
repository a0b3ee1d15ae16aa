"""What is looked for where Furiosa cards may be."""
