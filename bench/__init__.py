"""Measurements beside the peers; `make bench-quick`, `make bench`."""
