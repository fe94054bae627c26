"""The demo: a thousand unpaid orders and two workers, one of them killed. Then the orders and the work logs are compared.

orders.jsonl ──▶ add_many ──▶ due ──▶ two worker processes ──▶ a log each: taken, closed
             ──▶ delete, for paid orders                                  │
                                                        summary: orders × answers of delete × logs
"""
