"""Values that every other package uses: keys, names, durations, rates."""
