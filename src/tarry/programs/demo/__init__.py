"""The demo: a thousand unpaid orders, payments, two workers, one of them killed; then the orders and the work logs are compared.

orders.jsonl ──▶ add_many ──▶ due ──▶ two worker processes ──▶ a log each: taken, closed
             ──▶ delete, for paid orders                                  │
                                                        summary: orders × answers of delete × logs
"""
