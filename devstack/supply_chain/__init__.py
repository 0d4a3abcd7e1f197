"""What Tideline is made of: a list of its parts, a bill of materials, and advisories about them."""
