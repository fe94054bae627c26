"""Schedules: jobs that come again, without a leader.

schedules  ──●──────●───────────▶ time     sorted set: schedule → its next occurrence
             │
             ▼ a consumer whose pop finds it due: ``due`` reads it, the client computes the next occurrence,
               ``fire`` adds the job and moves the schedule on, if nobody else has meanwhile

recurrences  when: at an interval, or by calendar and time zone
records      the stored form of a schedule
occurrences  firing schedules that are due, after a pop
definitions  put, get, list, pause, resume, delete; and declarations by the code of workers
migration    moving schedules to another topic
"""
