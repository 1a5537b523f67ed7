"""The implementation of the public Python API. Import its names from `evopolicygym`; docs/python.md is the guide."""
