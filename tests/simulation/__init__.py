"""A simulated world: the product's own steps and ledger; Kafka, table, store, Spark in memory.

Everything runs on one thread. A process of the product is a greenlet; at each boundary (a call of
a port, a place of `tideline.failpoints`, a pause) it hands control back, and the history says what
happens next: who goes on and for how long, who dies, what the broker loses, who changes the table,
how far a clock jumps, what a person decides. Read in this order:

    kafka, table, store, spark    what outlives a process, and the ports on it
    kafka_world, table_world      the same for the contract tests of the ports
    clock                         time and chance; what the product asks of its machine
    process                       a process of the product, and where it can be interrupted
    world                         all of it together
    events                        everything that may happen, by name
    histories                     a seeded list of events, played
    properties                    what must hold after each event: the rules, as far as they show
    oracle                        what must hold in the end: produced = landed once, or recorded
    ending                        the way out: people decide, runs are tried again, all is landed
    shrink                        a failing history, made short
    explore                       many seeds; `python -m tests.simulation`
    duels                         two processes of one stream, interrupted at every boundary
    ways_out                      each halted state, each choice: does it end?
    fleet                         several worlds, and runs of all of them in shards
    rules_out                     each rule taken out by hand, and the history that notices
"""
