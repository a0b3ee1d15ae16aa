"""The fleet over HTTP: routes declared as data; from them come checks, OpenAPI and the docs page."""
