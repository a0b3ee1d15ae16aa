"""`accelscope top`: a terminal view of this node, of several agents, or of a fleet.

`sources` create a `view.model.View`. `view` turns it into sorted and filtered rows and lines of text.
`screen` shows them with Textual, and `once` prints them without Textual.
"""
