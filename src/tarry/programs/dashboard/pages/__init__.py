"""The parts: each module holds the views and the actions of one."""
