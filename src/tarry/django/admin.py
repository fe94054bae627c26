"""tarry in Django's admin site: the topics with their counts; of each topic the dead jobs, to kick or to delete.

    /admin/tarry/admintopic/                  topics                 tarry.view_jobs
    /admin/tarry/admintopic/orders/change/    dead jobs of one       tarry.view_jobs
        action=kick, action=delete            the chosen jobs        tarry.kick_jobs, tarry.delete_jobs

The jobs are read from the project's server at each request. The admin site's log has who kicked and deleted how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path

from tarry.clients.blocking.topic import Topic
from tarry.clients.handle_verbs import server_verbs
from tarry.core.flows import gather
from tarry.core.requests import flow_of
from tarry.django import client
from tarry.django.models import AdminTopic
from tarry.errors import BadInput, BodyError, TarryError
from tarry.verbs.jobs.dead_groups import task_of
from tarry.verbs.jobs.job_values import JobInfo
from tarry.verbs.jobs.stats import Stats
from tarry.verbs.jobs.views import is_known

TOPICS_SHOWN, JOBS_SHOWN = 100, 100
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
        """The topics and their counts."""
        self._require_view(request)
        page, rows, status = None, list[Stats](), 200
        try:
            page = Paginator(sorted(client().topics()), TOPICS_SHOWN).get_page(request.GET.get("page"))
            rows = _read_stats(page.object_list)
        except TarryError as fault:
            status = _report(request, fault)
        shown = {"title": "Topics", "page": page, "rows": rows, **(extra_context or {})}
        return self._render(request, "topics", shown, status)

    def change_view(
        self, request: AdminRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponseRedirect | TemplateResponse:
        """The dead jobs of a topic; POST kicks or deletes the chosen ones."""
        del form_url
        self._require_view(request)
        name = unquote(object_id)
        stats, jobs, cursor, status = None, list[dict[str, Any]](), None, 200
        try:
            topic = _known_topic(name)
            if request.method == "POST":
                return self._act(request, topic)
            stats = topic.stats()
            found = topic.list("dead", limit=JOBS_SHOWN, cursor=request.GET.get("cursor") or None)
            jobs, cursor = [_shown(job) for job in found], found.cursor
        except TarryError as fault:
            status = _report(request, fault)
        shown = {"title": f"Dead jobs of {name}", "topic": name, "stats": stats, "jobs": jobs, "cursor": cursor}
        return self._render(request, "topic", {**shown, **(extra_context or {})}, status)

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
    return client().engine.run_view(gather([flow_of(server_verbs(topic).stats()) for topic in topics]))


def _known_topic(name: str) -> Topic[Any]:
    """A topic that was ever added to. Raises ``Http404`` for any other."""
    try:
        topic: Topic[Any] = client().topic(name)
    except BadInput as fault:
        raise Http404(str(fault)) from fault
    if not client().engine.run(is_known(topic.verbs.context.keys)):
        raise Http404(f"Nothing was ever added to the topic {name}.")
    return topic


def _shown(job: JobInfo[Any]) -> dict[str, Any]:
    """A dead job as the page shows it. A job whose record is damaged has no task."""
    try:
        task = task_of(job)
    except BodyError as fault:
        task = f"(unreadable: {fault})"
    return {
        "id": job.id,
        "task": task,
        "attempts": job.attempts,
        "died": job.died,
        "reason": job.reason or "",
        "error": job.error or "",
    }


def _delete_dead(topic: Topic[Any], ids: Sequence[str]) -> int:
    """Deletes those jobs that are still dead: somebody may have kicked one since the page was shown."""
    return topic.delete_many(ids, state="dead").count("dead")
