"""`python -m tests.reality`: fetches the vendors' own programs into the cache of the end-to-end tests."""

from tests.reality.programs import prepare

if __name__ == "__main__":
    prepare()
