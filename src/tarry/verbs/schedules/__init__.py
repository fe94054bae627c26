"""Schedules: jobs that come again, without a leader.

schedules  ──●──────●───────────▶ time     sorted set: schedule → its next occurrence
             │
             ▼ whoever finds it due: ``due`` says what was found, the caller computes what comes next,
               ``fire`` adds the job and moves the schedule on, if it is still where it was found

rhythms    when: every so long, or by calendar and time zone
plans      what is stored of a schedule
firing     attending to those that are due; a pop that is told of them does it
keeping    put, get, list, pause, resume, delete; and what the code of workers declares
"""
