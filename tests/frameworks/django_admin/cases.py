"""Django's own test client visits the admin site; test_django_admin.py runs this file in a process of its own."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

import tarry
from plugin_browser import CHROMIUM, LONGEST_MS, find_chromium
from tarry.django import client as jobs
from tarry.django import worker

pytestmark = pytest.mark.django_db
TOPICS, ORDERS = "/admin/tarry/admintopic/", "/admin/tarry/admintopic/orders/change/"
EVIL = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def orders(tarry_clock):
    """Three dead jobs of a task, and a delayed one."""
    tarry_clock.attach(worker)
    orders = jobs().topic("orders")
    for id in ("a", "b", EVIL):
        orders.add({"task": "ship", "args": {"number": 7}}, id=id, max_attempts=1)
        orders.bury(orders.pop(), reason=f"no such customer\nTraceback of {EVIL}")
    orders.add(1, id="later", delay="1h")
    return orders


def staff(*permissions, **options):
    """A browser in which a member of the staff with these permissions is logged in."""
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="tarry"))
    browser = Client(**options)
    browser.force_login(user)
    return browser


def content(response):
    """The page without the admin site's own menus."""
    return response.content.decode().partition('id="content"')[2]


def told(response):
    return [str(message) for message in response.context["messages"]]


def states(orders):
    return {job.id: job.state for job in orders.list()}


def test_topics_are_listed_with_their_counts():
    browser = staff("view_jobs")
    assert 'href="/admin/tarry/admintopic/"' in browser.get("/admin/").content.decode()
    page = content(browser.get(TOPICS))
    row = re.search(r"orders</a>.*?</tr>", page, re.S)[0]
    assert re.findall(r"<td>(\d+)</td>", row) == ["1", "0", "0", "3", "0"]
    assert ORDERS in page


def test_dead_jobs_are_shown_with_their_error_and_nothing_in_them_is_markup():
    page = content(staff("view_jobs").get(ORDERS))
    assert page.count("no such customer") >= 3
    assert "ship" in page
    assert "later" not in page
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert 'name="action"' not in page, "they may look only"
    assert 'type="checkbox"' not in page


def test_the_error_itself_is_shown_where_the_attempts_were_exhausted(orders):
    orders.add({"task": "ship", "args": {}}, id="worn", max_attempts=1)
    orders.release(orders.pop(), reason="ConnectionError: refused\nTraceback")
    page = content(staff("view_jobs").get(ORDERS))
    assert "<summary>ConnectionError: refused</summary>" in page
    assert "attempts exhausted" not in page


def test_jobs_are_filtered_by_state_and_searched(orders):
    browser = staff("view_jobs", "kick_jobs")

    def ids(query):
        return sorted(re.findall(r'<th scope="row">([^<]+)</th>', content(browser.get(ORDERS, query))))

    orders.add({"task": "ship", "args": {"to": "Lund"}}, id="again", delay="2h")
    assert ids({"state": "delayed"}) == ["again", "later"]
    assert ids({"state": "delayed", "in": "text", "q": "Lund"}) == ["again"]
    assert ids({"in": "task", "q": "ship"}) == ["&lt;script&gt;alert(1)&lt;/script&gt;", "a", "b"]
    assert ids({"in": "error", "q": "Traceback"}) == ["&lt;script&gt;alert(1)&lt;/script&gt;", "a", "b"]
    assert ids({"in": "error", "q": "nothing"}) == []
    page = content(browser.get(ORDERS, {"state": "delayed"}))
    assert '<li class="selected"><a href="?state=delayed">delayed (2)</a></li>' in page
    assert 'name="action"' not in page, "only dead jobs are kicked"
    for wrong in ({"state": "{late}"}, {"in": "id", "q": "x"}, {"in": "text", "q": "x" * 1001}):
        assert browser.get(ORDERS, wrong).status_code == 400


def test_dead_jobs_are_grouped(orders):
    orders.add(1, id="other")
    orders.bury(orders.pop(), reason="too much")
    browser = staff("view_jobs", "kick_jobs")
    page = content(browser.get(ORDERS, {"show": "groups"}))
    assert "4 of 4 dead jobs read" in page
    [link] = re.findall(r'href="(\?state=dead&amp;group=\w+)">no such customer', page)
    jobs = content(browser.get(ORDERS + link.replace("&amp;", "&")))
    assert (jobs.count('class="action-select"'), "other" in jobs) == (3, False)


def test_schedules_are_listed():
    jobs().schedules.put("orders", "daily", cron="0 9 * * mon", tz="Europe/Berlin")
    jobs().schedules.pause("orders", "daily")
    page = content(staff("view_jobs").get(ORDERS, {"show": "schedules"}))
    assert "daily (paused)" in page
    assert "0 9 * * mon Europe/Berlin" in page
    assert "1 schedule<" in page


def test_schedules_are_searched_filtered_and_have_pages(orders):
    for n in range(120):
        jobs().schedules.put("orders", f"beat-{n:03}", every=f"{n + 1}h")
    jobs().schedules.put("orders", "daily", cron="0 9 * * mon", tz="Europe/Berlin")
    jobs().schedules.pause("orders", "beat-007")
    browser = staff("view_jobs")

    def page_of(query):
        page = content(browser.get(ORDERS, {"show": "schedules", **query}))
        return page, re.findall(r'<th scope="row">([\w-]+)', page)

    first, names = page_of({})
    assert (len(names), names[0], "page 1 of 2" in first, "121 schedules" in first) == (100, "beat-000", True, True)
    address = re.search(r'href="(\?[^"]+)">next', first)[1].replace("&amp;", "&")
    assert len(re.findall(r'<th scope="row">', content(browser.get(ORDERS + address)))) == 21
    assert page_of({"q": "BEAT-01"})[1] == [f"beat-{n:03}" for n in range(10, 20)]
    assert page_of({"q": "9 * * mon"})[1] == ["daily"]
    assert page_of({"only": "paused"})[1] == ["beat-007"]
    assert page_of({"q": "daily", "only": "paused"})[1] == []
    second, names = page_of({"q": "beat", "page": "2"})
    assert (len(names), "q=beat" in re.search(r'href="(\?[^"]+)">previous', second)[1]) == (20, True)
    for query in ({"q": EVIL}, {"q": EVIL, "page": "7"}):
        assert EVIL not in page_of(query)[0]
    assert 'id="changelist-search"' in first
    assert browser.get(ORDERS, {"show": "schedules", "only": "late"}).status_code == 400


def test_topics_are_searched_and_filtered(orders):
    jobs().topic("mail").add(1)
    browser = staff("view_jobs")

    def names(query):
        return re.findall(r'change/">([^<]+)</a>', content(browser.get(TOPICS, query)))

    assert names({"q": "ORD"}) == ["orders"]
    assert names({"has": "ready"}) == ["mail"]
    assert names({"has": "dead", "q": "o"}) == ["orders"]
    assert names({"q": EVIL}) == []
    assert browser.get(TOPICS, {"has": "age"}).status_code == 400


def test_the_lists_have_the_markup_of_the_admin_site(orders):
    browser = staff("view_jobs", "kick_jobs")
    for path in (TOPICS, ORDERS):
        page = browser.get(path).content.decode()
        for mark in (
            'id="changelist"',
            'id="toolbar"',
            'id="changelist-filter"',
            'id="result_list"',
            "changelists.css",
        ):
            assert mark in page, (path, mark)
    assert 'id="action-toggle"' in browser.get(ORDERS).content.decode()


@pytest.mark.skipif(find_chromium() is None, reason="needs chromium (apt install chromium-headless-shell)")
def test_no_long_name_runs_out_of_a_list(orders, live_server):
    long = "n" * 150
    jobs().topic(long).add({"task": long}, id=long, max_attempts=1)
    topic = jobs().topic(long)
    topic.bury(topic.pop(), reason=f"{long}\n{long}")
    jobs().schedules.put(long, long, every="1h")
    session = staff("view_jobs", "kick_jobs").cookies["sessionid"].value
    page = f"{TOPICS}{long}/change/"
    found = {
        path: boxes(live_server.url + path, session)
        for path in (TOPICS, page, f"{page}?show=groups", f"{page}?show=schedules")
    }
    assert not any(found.values()), [told for told in found.values() if told]


OUT = """() => {
  const list = document.querySelector(".results"), filter = document.querySelector("#changelist-filter").getBoundingClientRect();
  const found = [...document.querySelectorAll("#changelist-search, .results, #content h1, .paginator")]
    .filter((one) => { const box = one.getBoundingClientRect(); return box.right > innerWidth || (box.right > filter.left && box.bottom > filter.top); })
    .map((one) => `it runs out: ${one.outerHTML.slice(0, 80)}`);
  const table = list.querySelector("table").getBoundingClientRect();
  if (table.right > list.getBoundingClientRect().right + 1 && getComputedStyle(list).overflowX === "visible") found.push(`the table runs out by ${Math.round(table.right - list.getBoundingClientRect().right)} px`);
  for (const one of list.querySelectorAll("tbody td, tbody th")) if (one.getBoundingClientRect().height > 450) found.push(`it is too narrow, ${Math.round(one.getBoundingClientRect().width)} px: ${one.innerText.slice(0, 20)}`);
  return found;
}"""


def boxes(url, session):
    """What runs out of its place in a browser, 1,280 px wide, that has this session."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(LONGEST_MS)
        context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("#result_list")
        found = page.evaluate(OUT)
        browser.close()
    return found


def test_only_those_who_may_see_them_do(orders):
    browser = staff()
    assert [browser.get(path).status_code for path in (TOPICS, ORDERS)] == [403, 403]
    assert "admintopic" not in browser.get("/admin/").content.decode()
    assert Client().get(ORDERS).status_code == 302, "to the login"


@pytest.mark.parametrize(("permission", "action"), [("kick_jobs", "delete"), ("delete_jobs", "kick"), ("", "kick")])
def test_an_action_without_its_permission_is_refused(orders, permission, action):
    browser = staff("view_jobs", permission)
    form = {"action": action, "_selected_action": ["a"], "confirmed": "1"}
    assert browser.post(ORDERS, form).status_code == 403
    assert states(orders)["a"] == "dead"


def test_an_action_without_a_csrf_token_is_refused(orders):
    browser = staff("view_jobs", "kick_jobs", enforce_csrf_checks=True)
    assert browser.post(ORDERS, {"action": "kick", "_selected_action": ["a"]}).status_code == 403
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(ORDERS).content.decode())[1]
    form = {"action": "kick", "_selected_action": ["a"], "csrfmiddlewaretoken": token}
    assert browser.post(ORDERS, form).status_code == 302
    assert states(orders) == {"a": "ready", "b": "dead", EVIL: "dead", "later": "delayed"}


def test_chosen_jobs_are_kicked_and_the_log_has_it(orders):
    browser = staff("view_jobs", "kick_jobs")
    orders.delete("b")
    done = browser.post(ORDERS, {"action": "kick", "_selected_action": ["a", "b", EVIL, "later"]}, follow=True)
    assert told(done) == [
        "2 dead jobs of orders were kicked.",
        "2 of the chosen jobs were no longer dead, and stay as they are.",
    ]
    assert states(orders) == {"a": "ready", EVIL: "ready", "later": "delayed"}
    [entry] = LogEntry.objects.all()
    assert (entry.user.username, entry.object_repr) == ("ada", "orders")
    assert entry.get_change_message() == "2 dead jobs of orders were kicked."
    assert ORDERS in browser.get("/admin/").content.decode(), "the recent actions lead to the topic"


def test_a_deletion_is_confirmed_and_spares_a_job_that_was_kicked_meanwhile(orders):
    browser = staff("view_jobs", "delete_jobs")
    asked = browser.post(ORDERS, {"action": "delete", "all": "1", "shown": ["a", "b"]})
    assert "Delete 2 dead jobs of orders?" in asked.content.decode()
    assert states(orders)["a"] == "dead"
    orders.kick("b")
    form = {"action": "delete", "confirmed": "1", "_selected_action": ["a", "b"]}
    assert told(browser.post(ORDERS, form, follow=True))[0] == "1 dead job of orders was deleted."
    assert states(orders) == {"b": "ready", EVIL: "dead", "later": "delayed"}


def test_nothing_is_done_without_a_choice(orders):
    browser = staff("view_jobs", "kick_jobs", "delete_jobs")
    for action in ("kick", "delete"):
        assert told(browser.post(ORDERS, {"action": action}, follow=True)) == ["No job was chosen."]
    assert browser.post(ORDERS, {"action": "purge"}).status_code == 403
    assert LogEntry.objects.count() == 0


def test_many_dead_jobs_have_pages(orders):
    orders.add_many(range(150), max_attempts=1)
    orders.bury_many(orders.pop_many(150), reason="no")
    browser = staff("view_jobs")
    first = content(browser.get(ORDERS))
    assert first.count('scope="row"') == 100
    following = content(browser.get(ORDERS + re.search(r'href="(\?[^"]+)">more', first)[1].replace("&amp;", "&")))
    assert following.count('scope="row"') == 53
    assert ">more<" not in following


def test_a_topic_with_an_odd_name_has_a_page(orders):
    jobs().topic("a/b_c %?é").add(1, id="x")
    browser = staff("view_jobs")
    [address] = re.findall(r'href="([^"]+)">a/b_c', browser.get(TOPICS).content.decode())
    assert "ready (1)" in browser.get(address).content.decode()


@pytest.mark.parametrize("name", ["typo", "..", "x" * 999, "%FF"])
def test_an_unknown_topic_is_not_found(name):
    assert staff("view_jobs").get(f"/admin/tarry/admintopic/{name}/change/").status_code == 404


def test_a_wrong_cursor_is_reported():
    answer = staff("view_jobs").get(ORDERS, {"cursor": EVIL})
    assert (answer.status_code, told(answer)[0].partition(":")[0]) == (400, "cursor")


def test_a_server_that_does_not_answer_is_reported(tmp_path):
    with tarry.Client(f"unix://{tmp_path}/gone", patience=0.01) as gone, worker.using(gone):
        browser = staff("view_jobs", "kick_jobs")
        for answer in (browser.get(TOPICS), browser.get(ORDERS), browser.post(ORDERS, {"action": "kick"})):
            assert answer.status_code == 503
            assert len(told(answer)) == 1
