"""`accelscope top`: a terminal view of this node, of several agents, or of a fleet.

`sources` read and make a `view.shown.View`, which is all that the rest knows; `view` turns it into sorted,
filtered rows and lines of text without knowing a screen; `screen` shows them with Textual; `once` and
`document` print them and need no Textual.
"""
