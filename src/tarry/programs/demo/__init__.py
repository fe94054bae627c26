"""The demo: a thousand unpaid orders, payments, two workers, one of them killed; then orders and logs are compared.

orders.jsonl ──▶ add_many ──▶ due ──▶ two worker processes ──▶ a log each: taken, closed
             ──▶ delete, for what is paid                                 │
                                                          truth: orders × answers of delete × logs
"""
