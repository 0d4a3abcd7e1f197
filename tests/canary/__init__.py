"""Secrets planted everywhere in a whole stack, and a search for them in every place."""
