"""Names in real catalogs; `make test-catalog` installs their clients."""
