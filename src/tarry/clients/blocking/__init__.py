"""The blocking client. Most of it is made from the awaited one by ``make blocking``."""
