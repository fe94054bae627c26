"""A shop on Django: an order that is not paid in time is closed, by separate worker processes.

$ python manage.py migrate --run-syncdb
$ python manage.py runserver
$ python manage.py tarry_worker --processes 2          in another terminal
$ curl -X POST localhost:8000/orders/ -d delay=20s
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
