"""The dashboard: what is due when, what is late and why, in a browser. An ASGI application that mounts anywhere.

    browser ─▶ app ─▶ access: viewer or admin? ─▶ section ─▶ view ─▶ template
       ▲                                             │         └─ verbs of tarry.AsyncClient, charts
       └── live_updates: the page again, as server-sent events
                                                     └─ sampler: every 10 s, 24 h, in memory only

    app              the ASGI application: routes, pages, error pages
    access           roles, cross-site requests, the headers of every response; sign_in
    sections         pages and actions, one module each in pages/: add a new page there
    action_handler   an action: the plan, the confirmation, the execution
    forms            the fields of a form, and the plan of the action that it asks for
    audit            who did what, as log lines
    key_scanner      objects shared with Java, for their pages and the navigation
    sampler          counters and lateness over time

Rules: the server renders, so a page works without scripts. Text of a producer is never markup: Jinja escapes everything,
the content security policy forbids inline code, control characters are spelled out. A view changes nothing and costs the
same for three jobs and for a million. Every action checks the job's state when it is executed.
"""

from tarry.errors import MissingExtra

try:
    from tarry.programs.dashboard.dashboard_app import Dashboard as Dashboard
except ModuleNotFoundError as fault:
    if (fault.name or "").partition(".")[0] not in ("jinja2", "starlette"):
        raise
    raise MissingExtra("The dashboard needs more than the library: pip install 'tarry[http]'.") from fault
