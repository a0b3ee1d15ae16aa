"""Temperature limits that a driver gives as margins ("T.Limit")."""


def limit_by_margin(celsius: float, margin: float, threshold: float) -> float:
    """The limit in degrees. `margin` is how far the GPU is from its highest operating temperature now, and
    `threshold` the margin at which the limit is reached: -2 means two degrees beyond it."""
    return celsius + margin - threshold
