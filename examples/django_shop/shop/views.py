from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop.jobs import close
from shop.models import Order
from tarry.django import client


@csrf_exempt
@require_POST
@transaction.atomic
def place(request: HttpRequest) -> JsonResponse:
    order = Order.objects.create()
    later = close.options(delay=request.POST.get("delay", "30m"), id=f"close-{order.pk}")
    transaction.on_commit(
        lambda: later.add(order.pk)
    )  # after the commit: an order that was rolled back must have no job
    return JsonResponse({"order": order.pk})


@csrf_exempt
@require_POST
def pay(request: HttpRequest, pk: int) -> JsonResponse:
    Order.objects.filter(pk=pk).update(state="paid")
    client().topic("shop").delete(f"close-{pk}")
    return show(request, pk)


def show(request: HttpRequest, pk: int) -> JsonResponse:
    return JsonResponse({"order": pk, "state": Order.objects.get(pk=pk).state})
