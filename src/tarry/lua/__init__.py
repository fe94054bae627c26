"""The scripts: one a verb, in ``lua/THING/VERB.lua``, with shared parts in ``lib``."""
