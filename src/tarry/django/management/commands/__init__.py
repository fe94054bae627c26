"""The commands that Django finds here."""
