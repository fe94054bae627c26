"""tarry beside other job queues, in one run on one machine: ``make bench-peers`` (``python -m bench.peers --help``).

catalogue    the peers: versions, how each is set up, what it does not do
adapters/    a program a peer, run in the peer's own environment
installs     those environments: build/peers
processes    sessions of processes: their processor time, their end
servers      the servers, one for each turn
turns        a turn: a peer's server, its producer, its workers
rows         the measurements
readings     what was measured, kept after each turn
page         the tables and the chart: docs/evidence/peers.md, docs/evidence/peers.svg
"""
