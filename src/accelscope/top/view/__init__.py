"""What is shown, from readings to lines of text: pure, and without a screen."""
