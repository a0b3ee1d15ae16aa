"""The node agent: wires readers, page and server, and gives each driver call a deadline."""
