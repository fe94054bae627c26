"""The parts that tarry shares with Java applications on Redisson: names of keys, packed elements, values as bytes.

    names      how Redisson derives the keys and channels of an object from its name
    elements   the packed element of a delayed queue, in both formats
    entries    the packed value and the events of a map cache
    values     Java types that Python has no word for: Long, Bean, Opaque, …
    java_hash  the order of a Java HashMap or HashSet
    codecs     a value becomes bytes and comes back, byte for byte as Redisson's codec does it; a warning where that is not certain

All of it is pure, and was checked against bytes that real Redisson clients (3.16.8, 3.52.0) sent: tests/redisson/data.
"""
