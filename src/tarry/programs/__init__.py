"""The apps: programs that stand on the library. They do not see each other; the command line puts them together."""
