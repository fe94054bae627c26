"""Every page on three usual screens: no word and no row of buttons breaks, nothing overlaps or touches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from dashboard.conftest import Site, expect
from dashboard.test_live_streams import QUERIES
from tarry.programs.dashboard.sections import sections
from tarry.verbs.workers import ReportedJob, WorkerReport, WorkerTopic, report_worker

pytestmark = pytest.mark.slow
WIDTHS = (1024, 1280, 1920)
UNBROKEN = "n" * 160
"""A name without a place to break it, of a topic, a job, a schedule, a header."""
MORE = (
    "/jobs?topic=orders&state=dead",
    "/jobs?topic=orders&state=delayed",
    "/jobs?topic=orders",
    "/job?topic=orders&id=dead-0",
    "/topic?topic=orders&look=hour&heat=day&rates=day",
    "/schedule?topic=orders&name=digest-1637",
    f"/topic?topic={UNBROKEN}",
    f"/job?topic={UNBROKEN}&id={UNBROKEN}",
    f"/edit?topic={UNBROKEN}&id={UNBROKEN}",
    f"/schedule?topic={UNBROKEN}&name={UNBROKEN}",
    "/find?q=nnn",
    "/nowhere",
)
ERROR = """RuntimeError: parcel service: no answer for order {n} from https://parcels.example/v1/orders/{n}
Traceback (most recent call last):
  File "/srv/shop/parcels.py", line {n}, in {function}
    raise RuntimeError
"""
FAULTS = """() => {
  const view = document.getElementById('view'), found = [];
  const told = (what, one) => found.push(`${what}: ${(one.outerHTML || one.textContent).slice(0, 120)}`);
  const lines = (range) => new Set([...range.getClientRects()].map((box) => Math.round(box.top / 6))).size;
  const shown = (one) => { const box = one.getBoundingClientRect(); return box.width > 1 && box.height > 1 && box.right > 0; };
  // nothing passes the margin of the page
  const margin = view.getBoundingClientRect().right - parseFloat(getComputedStyle(view).paddingRight);
  for (const one of view.querySelectorAll("button, a, td, th, p, table, section, .tiles, h1, input, select, pre")) {
    const box = one.getBoundingClientRect();
    if (shown(one) && box.right > margin + 1 && !one.closest(".time-line, .chart, .skip, pre")) told(`it passes the margin by ${Math.round(box.right - margin)} px`, one);
  }
  // names of topics have room, for the sentence below as well
  for (const one of view.querySelectorAll(".topics tbody th")) if (one.getBoundingClientRect().width < 240) told(`its column is only ${Math.round(one.getBoundingClientRect().width)} px wide`, one);
  // the search field has room for its placeholder
  for (const one of document.querySelectorAll(".find input")) if (one.getBoundingClientRect().width < 190) told(`its field is only ${Math.round(one.getBoundingClientRect().width)} px wide`, one);
  // the words above the small time lines do not touch
  const axis = [...view.querySelectorAll(".axis span")].map((one) => { const range = document.createRange(); range.selectNodeContents(one); return range.getBoundingClientRect(); });
  const next = view.querySelector("th.line + th a");
  if (next) axis.push(next.getBoundingClientRect());
  axis.slice(1).forEach((box, i) => { if (box.left < axis[i].right + 3) found.push(`the words of the axis touch at ${Math.round(box.left)} px`); });
  // a word, such as "charge", "digest-1637" or a part of a time zone, stands on one line
  const texts = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest('pre, svg, .skip, .readout, select, option')) continue;
    for (const word of node.data.matchAll(/[^\\s/]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      if (word[0].length <= 24 && lines(range) > 1) told(`the word ${word[0]} breaks`, node.parentElement);
    }
  }
  // so does what is read at one glance
  for (const one of view.querySelectorAll('button, a.button, .chip, .state, .number, td.n, time, thead th, td .quiet')) {
    const range = document.createRange();
    range.selectNodeContents(one);
    if (shown(one) && !one.querySelector('.axis, .quiet, .skip, button, .chip') && lines(range) > 1) told('it breaks', one);
  }
  for (const row of view.querySelectorAll('.actions, .acts .with, .bulk .with')) {
    const tops = [...row.querySelectorAll('button, a.button')].filter(shown).map((one) => Math.round(one.getBoundingClientRect().top));
    if (new Set(tops).size > 1) told('the buttons are in several rows', row);
  }
  const boxes = [...view.querySelectorAll('h1, h2, p, a, button, input, select, td, th, dt, dd, li, pre, label')].filter(shown)
    .filter((one) => !one.closest('details:not([open])') || one.closest('summary'))
    .filter((one) => !one.closest('.time-line, .chart, .skip, .bulk') && getComputedStyle(one).position === 'static')
    .map((one) => [one, one.getBoundingClientRect()]);
  boxes.forEach(([one, a], i) => {
    for (let k = i + 1; k < boxes.length; k++) {
      const [other, b] = boxes[k];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 2 && !one.contains(other) && !other.contains(one)) told('they overlap', one) || told('with', other);
    }
  });
  const blocks = [...view.children].filter(shown);
  blocks.slice(1).forEach((one, i) => {
    const gap = one.getBoundingClientRect().top - blocks[i].getBoundingClientRect().bottom;
    if (gap < (blocks[i].matches('.crumbs') ? 4 : 8)) told(`it is ${gap} px below the one before`, one);
  });
  for (const one of view.querySelectorAll('table, form, section, dl')) if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX === 'visible') told('it is cut', one);
  return found;
}"""


@pytest.fixture
def full(site: Site, client: tarry.Client, namespace: str) -> Iterator[Site]:
    """Something on each page, with names and errors as long as they are in practice."""
    orders = client.topic("orders")
    functions = ("ship", "charge", "send_the_receipt")
    jobs = [
        tarry.NewJob({"task": functions[n % 3], "args": {"order": n}}, id=f"dead-{n}", max_attempts=1) for n in range(9)
    ]
    orders.add_many(jobs)
    for n, job in enumerate(orders.pop_many(9)):
        orders.release(job, reason=ERROR.format(n=4711, function=functions[n % 3]))
    orders.add_many([tarry.NewJob({"text": "tea " * 50}, id=f"order-{n}", delay="1h") for n in range(3)])
    orders.add(0, id="ready", ttr="10m")
    held = orders.pop()
    assert held is not None
    orders.add(
        1, id="7", delay="1h", headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    )
    client.topic("notifications-of-a-tenant-with-a-name").add_many(range(3))
    client.schedules.put("orders", "daily", every="1h30m")
    client.schedules.put("orders", "digest-1637", cron="0 9 * * mon-fri", tz="America/Argentina/Buenos_Aires")
    client.schedules.pause("orders", "digest-1637")
    tenant = client.topic("notifications-of-a-tenant-with-a-name")
    client.schedules.put(tenant, "monthly-report-1637", cron="30 9 1-7 * mon-fri", tz="America/Argentina/Buenos_Aires")
    client.delayed_queue("java", codec="string", format="tarry").offer("tea", "1h")
    handlers = ("close", "an_old_handler_with_a_name", "send_mail", UNBROKEN, *[f"handler_{n}" for n in range(20)])
    topics = [WorkerTopic("orders", handlers, 50, 1, overrun=1), WorkerTopic(UNBROKEN, ("close",), 50, 0)]
    report = WorkerReport(
        "a-host.somewhere.example", 4711, "1", 50, 1, False, topics, [ReportedJob("orders", held.id, 1, 1)], "work"
    )
    client.engine.run(report_worker(client.namespace, b"ada", None, report))
    unbroken = client.topic(UNBROKEN)
    unbroken.add({UNBROKEN: UNBROKEN}, id=UNBROKEN, delay="1h", headers={UNBROKEN[:60]: UNBROKEN})
    client.schedules.put(UNBROKEN, UNBROKEN, UNBROKEN, every="1h", headers={UNBROKEN[:60]: UNBROKEN})
    site.sample()
    with (
        client.map_cache(f"prices-{namespace}", codec="string") as prices,
        client.lock(f"till-{namespace}", lease="10m"),
    ):
        prices.put("tea", "4", ttl="1h")
        yield site


@pytest.mark.parametrize(
    "widths", [WIDTHS, *(pytest.param((width,), marks=pytest.mark.long) for width in WIDTHS)], ids=str
)
def test_no_box_breaks_or_overlaps(full: Site, browser: Any, namespace: str, widths: tuple[int, ...]) -> None:
    """Each page is loaded once, and its window made wider; in ``make test-long`` it is loaded for each width."""
    queries = {**QUERIES, "/locks": f"name=till-{namespace}", "/maps": f"name=prices-{namespace}"}
    context = browser.new_context(reduced_motion="reduce", locale="en-US")
    page = context.new_page()
    faults = {}
    for path in (*[f"{one.path}?{queries.get(one.path, '')}" for one in sections()], *MORE):
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            if width == widths[0]:
                page.goto(full.at + path)
                expect(page.locator("h1").first).to_be_visible()
            if found := page.evaluate(FAULTS):
                faults[path, width] = found
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    context.close()
    assert not faults, "\n".join(f"{path} {width} {one}" for (path, width), found in faults.items() for one in found)
