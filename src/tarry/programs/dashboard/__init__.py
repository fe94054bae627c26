"""The dashboard: what is due when, what is late and why, in a browser. An ASGI application that mounts anywhere.

    browser ─▶ app ─▶ gate: may they look, may they act? ─▶ section ─▶ view ─▶ template
       ▲                                                       │         └─ verbs of tarry.AsyncClient, drawings
       └── live: the same page again, as server-sent events ◀──┘
                                                               └─ sampler: every 10 s, 24 h, in memory only

    app        the ASGI application: routes, what each kind of trouble looks like
    gate       who looks and who acts; sign-in; cross-site requests; the headers of every answer
    sections   the parts of it, one module each: a new feature adds a module there, with its views and actions
    acting     a request to do something: the dry run, the question, the deed
    sampler    counters and lateness over time

Rules: the server draws, so a page works without scripts; what a producer wrote is text and never markup (Jinja escapes
everything, the policy forbids inline code, controls are spelled out); looking changes nothing and costs the same for
three jobs and for a million; every action asks what the job's state allows at the moment when it is done.
"""

from tarry.programs.dashboard.app import Dashboard as Dashboard
