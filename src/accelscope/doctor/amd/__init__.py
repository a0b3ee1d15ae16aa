"""What is looked for where AMD GPUs may be."""
