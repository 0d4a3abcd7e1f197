"""The serializers themselves: what they write is in the typed table, or set aside by name."""
