"""A module that cannot be imported, and tries to take its importer with it."""

import sys

sys.exit(7)
