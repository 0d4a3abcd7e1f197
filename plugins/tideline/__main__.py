"""`python -m tideline`."""

import sys

from tideline.cli.main import main

sys.exit(main())
