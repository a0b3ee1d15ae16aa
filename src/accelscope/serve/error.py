"""What keeps the server from starting."""


class ServeError(Exception):
    """The server cannot start or take up new files. The text is one line that says what to look at."""
