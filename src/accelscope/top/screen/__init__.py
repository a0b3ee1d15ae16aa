"""The screen, with Textual: the only part of top that needs it."""
