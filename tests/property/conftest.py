"""How Hypothesis looks for examples here."""

from hypothesis import settings

# Time on a busy machine proves nothing: a slow example is no failure.
settings.register_profile("tideline", deadline=None)
settings.load_profile("tideline")
