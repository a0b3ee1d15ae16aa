"""`python -m accelscope`."""

import sys

from accelscope.cli.main import main

sys.exit(main())
