"""What was found, for people (Rich renderables) and for programs (plain values). Nothing here prints."""
