"""Runs on clusters that share no disk with the driver, over a real object store."""
