from django.urls import path

from shop import views

urlpatterns = [
    path("orders/", views.place),
    path("orders/<int:pk>/", views.show),
    path("orders/<int:pk>/payment/", views.pay),
]
