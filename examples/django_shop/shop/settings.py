"""The minimal settings of a Django project."""

import os
from pathlib import Path

SECRET_KEY = "an example has no secrets"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop", "tarry.django"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", Path(__file__).parent.parent / "shop.sqlite3"),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

TARRY = {
    "NAME": "shop",  # the topic of its tasks
    # without "URL" and "NAMESPACE" it uses TARRY_URL and TARRY_NAMESPACE
    "TTR": "10s",
    "GRACE": os.environ.get("SHOP_GRACE", "10s"),
}
