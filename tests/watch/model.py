"""The watch, small enough to try everything: an explicit-state model of how idle consumers wait (docs/decisions/0003-the-watch.md).

    server                                          consumer (a process)

    due, reserved   the topic's deadlines           looking ──▶ answered ──▶ waiting ──▶ looking …
    watch           consumer → promised to look        │            │          │  ▲
    wake, relay     at most one token each             │            ▼          ▼  │
    BLPOP queue     who waits, first come first        └──────▶   away  ◀── leaving

Time is a whole number of ticks and all times in a state are *relative to now*, so that the number of states is finite
without a horizon. Steps of running processes take no time: the clock ticks only when nobody has anything left to do.
Faults and changes of the world may come between any two steps, in any order, as often as their budget lasts.

From the inside out: `rules.py` (`settle`, a pure function), `states.py`, here `Watch` (the server's scripts and the client's
decisions, each a method that a mutant may override; the world and its faults), `search.py`, the properties (test_watch_model.py).
"""

# ruff: noqa: ARG002  G and R are the design's names; what a mutant may override sees more than the protocol needs
from __future__ import annotations

from dataclasses import dataclass

from watch.rules import earliest, settle
from watch.states import FOR_EVER, LOST, NEVER, Consumer, State, Steps, block, change, name, put, serve, unblock


@dataclass(frozen=True)
class Watch:
    """The protocol and the bounds of its world. A mutant overrides one method."""

    G: int = 1
    R: int = 6
    ttr: int = 8
    slots: int = 1  # jobs at a time a consumer
    cap: int = NEVER  # jobs at a time in all
    every: int = 0  # ticks between two jobs, by a rate
    period: int = 3  # ticks between two occurrences of the schedule
    delays: tuple[int, ...] = (0, 3, 8)  # at once, within R, beyond R
    fault_kinds: tuple[str, ...] = ("kill", "ghost", "freeze")  # and "lose"
    change_kinds: tuple[str, ...] = ("reschedule", "pause", "stop", "end", "pass")

    # ── the server's scripts ──

    settle = staticmethod(settle)

    def next(self, s: State) -> int | None:
        """The earliest deadline; while paused for ever none."""
        if s.paused == FOR_EVER:
            return None
        paused = s.paused if s.paused != NEVER else None
        fires = s.fires if s.fires != NEVER else None
        held = [h for c in s.crew for h in c.held if h != LOST]
        head, back = min(s.jobs, default=None), min(held, default=None)
        return earliest(head, back, paused=paused, opens=s.gate, full=len(held) >= self.cap, fires=fires)

    def settled(self, s: State, me: int | None = None, stays: bool = False) -> tuple[State, int | None, int]:
        before = {i: c.promise for i, c in enumerate(s.crew) if c.promise != NEVER}
        next_ = self.next(s)
        seats, wake, relay, alarm, seat = self.settle(
            0, next_, dict(before), s.wake, s.relay, me, stays, G=self.G, R=self.R
        )
        crew = s.crew
        if seats != before:
            crew = tuple(
                c if c.promise == seats.get(i, NEVER) else c._replace(promise=seats.get(i, NEVER))
                for i, c in enumerate(crew)
            )
        return serve(s._replace(crew=crew, wake=wake, relay=relay)), alarm, seat

    def put_back_and_take(self, s: State, n: int) -> tuple[State, int]:
        jobs, crew = list(s.jobs), list(s.crew)
        for i, c in enumerate(crew):
            if any(h <= 0 for h in c.held):
                jobs += [h for h in c.held if h <= 0]
                crew[i] = c._replace(held=tuple(sorted(LOST if h <= 0 else h for h in c.held)))
        jobs.sort()
        got = 0
        n = min(n, self.cap - sum(h != LOST for c in crew for h in c.held), n if s.gate <= 0 else 0)
        n = min(n, 1) if self.every else n
        if s.paused == NEVER:
            while got < n and jobs and jobs[0] <= min(0, s.fires):
                got += 1
                del jobs[0]
        gate = self.every if got and self.every else s.gate
        return s._replace(jobs=tuple(jobs), crew=tuple(crew), gate=gate), got

    def pop(self, s: State, i: int) -> State:
        """Put back what ran out, hand out up to n, settle; the caller stays when it got fewer than it asked for."""
        n = self.slots - len(s.crew[i].held)
        s, got = self.put_back_and_take(s, n)
        s = change(s, i, held=tuple(sorted(s.crew[i].held + (self.ttr,) * got)))
        s, alarm, seat = self.settled(s, i, stays=got < n)
        fires = got == 0 and s.fires <= 0 and s.paused == NEVER
        alarm = NEVER if alarm is None else max(alarm, 0)
        return change(s, i, phase="answered", alarm=alarm, seat=seat, fires=fires)

    def reserve(self, s: State, i: int) -> State:
        """The schedule is reserved for a second, if nobody was first."""
        if s.fires > 0:
            return change(s, i, phase="waiting", alarm=0)
        s = change(s, i, phase="adding", reserves=True)
        return self.settled(s._replace(fires=self.G, reserved=min(s.fires, s.reserved)))[0]

    def fire(self, s: State, i: int) -> State:
        """The job of the occurrence is added and the schedule moves on, if nobody did it before."""
        may_add, at = s.crew[i].reserves, s.reserved
        s = change(s, i, phase="waiting", alarm=0)
        if not may_add:
            return s
        left = s.occurrences - 1
        crew = tuple(c._replace(reserves=False) for c in s.crew)
        s = s._replace(crew=crew, jobs=tuple(sorted((*s.jobs, at))), occurrences=left, reserved=NEVER)
        return self.settled(s._replace(fires=at + self.period if left else NEVER))[0]

    def add(self, s: State, delay: int) -> State:
        if self.add_may_skip(s, delay):
            return s._replace(jobs=tuple(sorted((*s.jobs, delay))))
        return self.settled(s._replace(jobs=tuple(sorted((*s.jobs, delay)))))[0]

    def add_may_skip(self, s: State, delay: int) -> bool:
        """Whether this add need not settle."""
        return False

    def finish(self, s: State, i: int, h: int) -> State:
        held = list(s.crew[i].held)
        held.remove(h)
        s = change(s, i, held=tuple(held))
        return s if h == LOST else self.settled(s)[0]

    # ── the client's decisions: what an `up` consumer does at once ──

    def free(self, c: Consumer) -> bool:
        return c.wants and len(c.held) < self.slots

    def keys(self, c: Consumer) -> str:
        """What to BLPOP on: relay is for those without a seat."""
        return "w" if c.seat else "wr"

    def begins(self, s: State, i: int) -> State:
        return block(s, i, self.keys(s.crew[i]))

    def closes_before_looking(self, c: Consumer) -> bool:
        """A BLPOP on relay must not be open while a look may take a seat: the token is for somebody else."""
        return c.line == "wr"

    def answered(self, s: State, i: int) -> tuple[str, State]:
        """The reply of pop arrives."""
        c = s.crew[i]
        if c.fires:
            return f"{name(i)} reads its answer: a schedule is due", change(s, i, phase="firing", fires=False)
        if c.alarm == NEVER:
            return f"{name(i)} reads its answer: full", change(s, i, phase="away")
        if not self.free(c):
            return f"{name(i)} reads its answer, no longer wants", change(s, i, phase="leaving", alarm=NEVER)
        return f"{name(i)} reads its answer: seat {c.seat}, alarm in {c.alarm}", change(s, i, phase="waiting")

    def token_arrives(self, s: State, i: int) -> tuple[str, State]:
        """Every token is answered: by a look, or by leaving."""
        if self.free(s.crew[i]):
            return f"{name(i)} reads its token, looks", change(s, i, line="", phase="looking", alarm=NEVER)
        return f"{name(i)} reads its token, leaves", change(s, i, line="", phase="leaving", alarm=NEVER)

    def step(self, s: State, i: int) -> tuple[str, State] | None:
        """The one thing consumer i does next; None: it rests."""
        c = s.crew[i]
        if c.life != "up":
            return None
        who = name(i)
        if c.phase == "looking":
            return f"{who} pops", self.pop(s, i)
        if c.phase == "answered":
            return self.answered(s, i)
        if c.phase == "firing":
            return f"{who} reserves the schedule", self.reserve(s, i)
        if c.phase == "adding":
            return f"{who} adds the schedule's job", self.fire(s, i)
        if c.phase == "leaving":
            s, _, _ = self.settled(s, i)
            return f"{who} leaves", change(s, i, phase="away", seat=0)
        if c.line == "token":
            return self.token_arrives(s, i)
        return self.waits(s, i) if c.phase == "waiting" else self.is_away(s, i)

    def waits(self, s: State, i: int) -> tuple[str, State] | None:
        c, who = s.crew[i], name(i)
        if not self.free(c):
            return f"{who} stops waiting", change(s, i, phase="leaving", alarm=NEVER)
        if c.alarm <= 0 and self.closes_before_looking(c):
            return f"{who}'s alarm rings, it unblocks {c.line}", unblock(s, i)
        if c.alarm <= 0:
            return f"{who}'s alarm rings", change(s, i, phase="looking", alarm=NEVER)
        if not c.line:
            return f"{who} waits on {self.keys(c)}", self.begins(s, i)
        if c.line != self.keys(c):  # it may have had a token in this very moment: answered above
            return f"{who} unblocks {c.line}", unblock(s, i)
        return None  # a BLPOP on wake alone stays open over any number of looks

    def is_away(self, s: State, i: int) -> tuple[str, State] | None:
        c, who = s.crew[i], name(i)
        if self.free(c) and self.closes_before_looking(c):
            return f"{who} wants a job, it unblocks {c.line}", unblock(s, i)
        if self.free(c):
            return f"{who} wants a job", change(s, i, phase="looking")
        if c.line:
            return f"{who} unblocks {c.line}, away", unblock(s, i)
        return None

    # ── what must hold in every state ──

    def broken(self, s: State, steps: list[tuple[str, State] | None]) -> str | None:
        if not (0 <= s.wake <= 1 and 0 <= s.relay <= 1):
            return "a list holds more than one token"
        for i, c in enumerate(s.crew):
            if c.life != "up" or c.promise == NEVER:
                continue
            if c.phase == "waiting":
                if c.alarm > max(c.promise, 0):
                    return f"{name(i)} promised to look in {c.promise}, its alarm is in {c.alarm}"
            elif steps[i] is None:
                return f"{name(i)} does not wait and holds a seat"
        return None

    # ── the world ──

    def tick(self, s: State) -> State:
        open_ = s.paused == NEVER
        neglected = open_ and any(c.life == "up" and self.free(c) for c in s.crew)
        held = [h for c in s.crew for h in c.held if h != LOST]
        full = len(held) >= self.cap

        def older(deadline: int, held_back: bool = False) -> int:
            return deadline - 1 if deadline > 0 or (neglected and not held_back) else deadline

        crew = tuple(
            c._replace(
                alarm=c.alarm if c.alarm in (0, NEVER) else self.alarm_after_a_tick(c),
                promise=c.promise if c.promise in (NEVER, -self.G - 1) else c.promise - 1,
                held=tuple(sorted(h if h == LOST else older(h, s.gate > 0) for h in c.held)),
            )
            for c in s.crew
        )
        paused = s.paused if s.paused >= FOR_EVER else s.paused - 1 or NEVER
        jobs = tuple(older(at, s.gate > 0 or full) for at in s.jobs)
        fires = s.fires if s.fires == NEVER else older(s.fires)
        reserved = s.reserved if s.reserved == NEVER else older(s.reserved)
        return s._replace(crew=crew, jobs=jobs, paused=paused, gate=max(s.gate - 1, 0), fires=fires, reserved=reserved)

    def alarm_after_a_tick(self, c: Consumer) -> int:
        """An alarm counts from when the question was sent: a reply read late does not move it."""
        return c.alarm - 1

    def events(self, s: State) -> Steps:
        if s.adds:
            for delay in self.delays:
                yield f"add, due in {delay}", self.add(s._replace(adds=s.adds - 1), delay)
        yield from self.lives(s)
        if s.paused == FOR_EVER:
            yield "resume", self.settled(s._replace(paused=NEVER))[0]
        if s.changes:
            yield from self.changes(s._replace(changes=s.changes - 1))
        if s.faults:
            yield from self.faults(s._replace(faults=s.faults - 1))

    def lives(self, s: State) -> Steps:
        for i, c in enumerate(s.crew):
            if c.life == "up":
                for h in set(c.held) if c.phase in ("away", "waiting") else ():
                    yield f"{name(i)} finishes", self.finish(s, i, h)
                if not c.wants:
                    yield f"{name(i)} wants jobs again", change(s, i, wants=True)
            if c.life == "frozen":
                yield f"{name(i)} thaws", change(s, i, life="up")
            if c.life == "dead" and c.line:
                yield f"server notices that {name(i)} is gone", unblock(s, i)

    def changes(self, s: State) -> Steps:
        if "reschedule" in self.change_kinds and s.jobs:
            for delay in self.delays:
                yield (
                    f"reschedule the head to {delay}",
                    self.settled(s._replace(jobs=tuple(sorted((*s.jobs[1:], delay)))))[0],
                )
        if "pause" in self.change_kinds and s.paused == NEVER:
            yield "pause", self.settled(s._replace(paused=FOR_EVER))[0]
            yield "pause for 2", self.settled(s._replace(paused=2))[0]
        if "pass" in self.change_kinds and s.jobs and s.jobs[0] <= 0 and s.paused == NEVER:
            yield "somebody pops in passing", self.settled(self.put_back_and_take(s, 1)[0])[0]
        for i, c in enumerate(s.crew):
            if "stop" in self.change_kinds and c.life == "up" and c.wants:
                yield f"{name(i)} wants no more jobs", change(s, i, wants=False)
            if "end" in self.change_kinds and c.line in ("w", "wr"):
                yield f"{name(i)}'s BLPOP ends by itself", unblock(s, i)

    def faults(self, s: State) -> Steps:
        for i, c in enumerate(s.crew):
            if c.life == "dead":
                continue
            corpse = Consumer("dead", "away", promise=c.promise, held=tuple(h for h in c.held if h != LOST))
            if "kill" in self.fault_kinds:
                yield f"kill {name(i)}", put(s, i, corpse)
            if "ghost" in self.fault_kinds and c.line in ("w", "wr"):
                corpse = corpse._replace(line=c.line, place=c.place)
                yield f"kill {name(i)}, its BLPOP seems alive", put(s, i, corpse)
            if "freeze" in self.fault_kinds and c.life == "up":
                yield f"freeze {name(i)}", change(s, i, life="frozen")
        if "lose" in self.fault_kinds:
            crew = tuple(c._replace(promise=NEVER) for c in s.crew)
            yield "fail-over loses watch, wake, relay", s._replace(crew=crew, wake=0, relay=0)
