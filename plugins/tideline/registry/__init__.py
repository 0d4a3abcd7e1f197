"""The schema registry: which schema an id stands for."""
