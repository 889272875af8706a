"""`python -m moorage` is `moorage`."""

import sys

from moorage.cli.main import main

sys.exit(main())
