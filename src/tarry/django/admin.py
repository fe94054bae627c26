"""tarry in Django's admin site: the topics with their counts; of each topic its jobs, the groups of the dead, its schedules.

    /admin/tarry/admintopic/                      topics                        tarry.view_jobs
        ?q=mail&has=dead                          by name, by what they have
    /admin/tarry/admintopic/orders/change/        dead jobs of one              tarry.view_jobs
        ?state=retrying&in=error&q=card           in a state, with a text
        ?group=3f9a1c0284b1                       of a group of the dead
        ?show=groups                              the groups
        ?show=schedules&q=daily&only=paused       the schedules, with a text, in a state
        action=kick, action=delete                the chosen dead jobs          tarry.kick_jobs, tarry.delete_jobs

The pages have the markup and the style sheet of the admin's own lists.

The jobs are read from the project's server at each request. The admin site's log has who kicked and deleted how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path

from tarry import JobInfo, Schedule, Stats, Topic
from tarry.django import client
from tarry.django.models import AdminTopic
from tarry.errors import BadInput, BodyError, TarryError
from tarry.internal import gather, perform, perform_view, server_verbs, task_call

TOPICS_SHOWN, JOBS_SHOWN, SCHEDULES_SHOWN, GROUPS_AT_ONCE = 100, 100, 100, 1000
STATES = ("dead", "retrying", "delayed", "ready", "reserved", "finished")
SEARCHED = {"error": "error", "text": "body", "task": "task"}
HAS = ("dead", "retrying", "ready", "reserved", "delayed")
ONLY = ("paused", "orphaned", "damaged")
TITLES = {"groups": "Dead jobs of {} by error", "schedules": "Schedules of {}"}
AdminRequest = Any
"""A request. Django has no types, and its middleware adds attributes."""


@admin.register(AdminTopic)
class TopicAdmin(admin.ModelAdmin):
    """The pages of the topics."""

    def get_urls(self) -> list[Any]:
        """The list of topics, and a page for each. ``admin_view`` checks the session and the CSRF token."""
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", self.admin_site.admin_view(self.changelist_view), name=f"{name}_changelist"),
            path("<path:object_id>/change/", self.admin_site.admin_view(self.change_view), name=f"{name}_change"),
        ]

    def has_add_permission(self, request: AdminRequest) -> bool:  # noqa: ARG002  # Django's
        """Topics begin with their first job."""
        return False

    def has_view_permission(self, request: AdminRequest, obj: Any = None) -> bool:  # noqa: ARG002  # Django's
        """Whether the user may see topics and dead jobs."""
        return bool(request.user.has_perm("tarry.view_jobs"))

    def has_change_permission(self, request: AdminRequest, obj: Any = None) -> bool:  # noqa: ARG002  # Django's
        """Whether the user may make dead jobs ready again."""
        return bool(request.user.has_perm("tarry.kick_jobs"))

    def has_delete_permission(self, request: AdminRequest, obj: Any = None) -> bool:  # noqa: ARG002  # Django's
        """Whether the user may delete dead jobs."""
        return bool(request.user.has_perm("tarry.delete_jobs"))

    def changelist_view(
        self, request: AdminRequest, extra_context: Any = None
    ) -> HttpResponseRedirect | TemplateResponse:
        """The topics and their counts: all, those with a text in their name, those that have jobs in a state."""
        self._require_view(request)
        text, has, status = request.GET.get("q", "").strip(), request.GET.get("has", ""), 200
        page, rows = None, list[Stats]()
        try:
            if has and has not in HAS:
                raise BadInput(f"has: {has[:40]!r} is unknown; it is one of {', '.join(HAS)}.")
            names = sorted(name for name in client().topics() if text.lower() in name.lower())
            if has:
                names = [stats.topic for stats in _read_stats(names) if getattr(stats, has)]
            page = Paginator(names, TOPICS_SHOWN).get_page(request.GET.get("page"))
            rows = _read_stats(page.object_list)
        except TarryError as fault:
            status = _report(request, fault)
        shown = {"title": "Topics", "page": page, "rows": rows, "text": text, "has": has, "all_has": HAS}
        shown["query"] = urlencode({"q": text, "has": has})
        return self._render(request, "topics", {**shown, **(extra_context or {})}, status)

    def change_view(
        self, request: AdminRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponseRedirect | TemplateResponse:
        """The jobs of a topic, its groups of dead jobs, or its schedules; POST kicks or deletes the chosen dead jobs."""
        del form_url
        self._require_view(request)
        name, given, status = unquote(object_id), request.GET, 200
        state, field = given.get("state") or "dead", given.get("in") or "error"
        show = given.get("show", "")
        template = show if show in TITLES else "topic"
        shown: dict[str, Any] = {
            "title": TITLES.get(show, f"{state.capitalize()} jobs of {{}}").replace("{}", name),
            "topic": name,
            "show": show,
            "state": state,
            "states": STATES,
            "field": field,
            "fields": SEARCHED,
            "text": given.get("q", "").strip(),
            "group": given.get("group", "") if state == "dead" else "",
        }
        try:
            topic = _known_topic(name)
            if request.method == "POST":
                return self._act(request, topic)
            shown["counts"] = _counts(topic.stats())
            if template == "groups":
                shown["found"] = topic.dead_groups(limit=GROUPS_AT_ONCE, cursor=given.get("cursor") or None)
            elif template == "schedules":
                shown |= _read_schedules(name, shown["text"], given.get("only", ""), given.get("page"))
            else:
                shown |= _read_jobs(topic, shown, given.get("cursor") or None)
        except TarryError as fault:
            status = _report(request, fault)
        return self._render(request, template, {**shown, **(extra_context or {})}, status)

    def _require_view(self, request: AdminRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _act(self, request: AdminRequest, topic: Topic[Any]) -> HttpResponseRedirect | TemplateResponse:
        """Kicks or deletes the chosen jobs, and shows the page again. A deletion is confirmed first."""
        action, ids = request.POST.get("action"), request.POST.getlist(ACTION_CHECKBOX_NAME)
        if request.POST.get("all"):
            ids = request.POST.getlist("shown")
        allowed = {"kick": self.has_change_permission, "delete": self.has_delete_permission}
        if action not in allowed or not allowed[action](request):
            raise PermissionDenied
        if ids and action == "delete" and not request.POST.get("confirmed"):
            return self._render(request, "confirm", {"title": "Are you sure?", "topic": topic.name, "ids": ids})
        if not ids:
            messages.warning(request, "No job was chosen.")
        elif action == "kick":
            self._report_done(request, topic, len(ids), sum(was == "dead" for was in topic.kick_many(ids)), "kicked")
        else:
            self._report_done(request, topic, len(ids), _delete_dead(topic, ids), "deleted")
        return HttpResponseRedirect(request.get_full_path())

    def _report_done(self, request: AdminRequest, topic: Topic[Any], chosen: int, done: int, what: str) -> None:
        told = f"{done} dead {'job' if done == 1 else 'jobs'} of {topic.name} {'was' if done == 1 else 'were'} {what}."
        if done:
            self.log_change(request, AdminTopic(name=topic.name), told)
            messages.success(request, told)
        if done < chosen:
            messages.warning(request, f"{chosen - done} of the chosen jobs were no longer dead, and stay as they are.")

    def _render(
        self, request: AdminRequest, template: str, shown: dict[str, Any], status: int = 200
    ) -> TemplateResponse:
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "may_kick": self.has_change_permission(request),
            "may_delete": self.has_delete_permission(request),
            "checkbox": ACTION_CHECKBOX_NAME,
            **shown,
        }
        return TemplateResponse(request, f"tarry/admin/{template}.html", context, status=status)


def _report(request: AdminRequest, fault: TarryError) -> int:
    """Shows the error, and returns the status of the page."""
    messages.error(request, str(fault))
    return 400 if isinstance(fault, BadInput) else 503


def _read_stats(names: Sequence[str]) -> list[Stats]:
    """The counts of some topics, in one pipeline."""
    topics = [client().topic(name) for name in names]
    return perform_view(client(), gather(server_verbs(topic).stats() for topic in topics))


def _known_topic(name: str) -> Topic[Any]:
    """A topic that was ever added to. Raises ``Http404`` for any other."""
    try:
        topic: Topic[Any] = client().topic(name)
    except BadInput as fault:
        raise Http404(str(fault)) from fault
    if not perform(client(), server_verbs(topic).is_known()):
        raise Http404(f"Nothing was ever added to the topic {name}.")
    return topic


def _counts(stats: Stats) -> list[tuple[str, int]]:
    """How many jobs are in each state; finished ones as far as they are kept."""
    return [(name, stats.finished_kept if name == "finished" else getattr(stats, name)) for name in STATES]


def _read_jobs(topic: Topic[Any], shown: dict[str, Any], cursor: str | None) -> dict[str, Any]:
    """A page of the jobs that the query chooses."""
    if shown["field"] not in SEARCHED:
        raise BadInput(f"in: {shown['field'][:40]!r} is unknown; it is one of {', '.join(SEARCHED)}.")
    search = {shown["field"]: shown["text"]} if shown["text"] else {}
    if shown["group"]:
        search["group"] = shown["group"]
    found = topic.list(shown["state"], **search, limit=JOBS_SHOWN, cursor=cursor)
    return {"jobs": [_shown(job) for job in found], "cursor": found.cursor, "scanned": found.scanned}


def _read_schedules(topic: str, text: str, only: str, number: str | None) -> dict[str, Any]:
    """A page of the schedules with a text in their id or cron expression, in a state; by their next occurrence."""
    if only and only not in ONLY:
        raise BadInput(f"only: {only[:40]!r} is unknown; it is one of {', '.join(ONLY)}.")
    found = [one for one in client().schedules.list(topic) if text.lower() in f"{one.id} {one.cron or ''}".lower()]
    chosen = [one for one in found if not only or getattr(one, only)]
    page = Paginator(sorted(chosen, key=_next_first), SCHEDULES_SHOWN).get_page(number)
    return {
        "page": page,
        "only": only,
        "all_only": ONLY,
        "query": urlencode({"show": "schedules", "q": text, "only": only}),
    }


def _next_first(one: Schedule) -> tuple[Any, ...]:
    return one.next is None, one.next, one.id


def _shown(job: JobInfo[Any]) -> dict[str, Any]:
    """A job as the page shows it. A job whose record is damaged has no task."""
    try:
        call = task_call(job)
        task = "" if call is None else call.task
    except BodyError as fault:
        task = f"(unreadable: {fault})"
    return {
        "id": job.id,
        "task": task,
        "attempts": job.attempts,
        "at": job.died or job.finished or job.due or job.reserved_until,
        "failure": job.failure or "",
        "error": job.error or "",
    }


def _delete_dead(topic: Topic[Any], ids: Sequence[str]) -> int:
    """Deletes those jobs that are still dead: somebody may have kicked one since the page was shown."""
    return topic.delete_many(ids, state="dead").count("dead")
