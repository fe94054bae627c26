# The examples of docs/reference/command-line.md, a cell for each command. The tests run that page.

# %% tarry
tarry --version
tarry --json topics

# %% tarry add
tarry add orders '{"order": 7}' --id 7 --delay 30m
printf '{"body": {"order": %d}, "id": "%d"}\n' 8 8 9 9 | tarry add orders --file -

# %% tarry pop
tarry pop orders --wait 1s --ttr 5m --json | sed 's/.*"receipt":\([0-9]*\).*/\1/' > receipt-of-8

# %% tarry finish
tarry finish orders 8 "$(cat receipt-of-8)"

# %% tarry touch
tarry pop orders --json | sed 's/.*"receipt":\([0-9]*\).*/\1/' > receipt-of-9
tarry touch orders 9 "$(cat receipt-of-9)" --ttr 10m

# %% tarry release
tarry release orders 9 "$(cat receipt-of-9)" --delay 0

# %% tarry bury
receipt=$(tarry pop orders --wait 1s --json | sed 's/.*"receipt":\([0-9]*\).*/\1/')
tarry bury orders 9 "$receipt" --reason 'no such customer'

# %% tarry get
tarry get orders 7 9 --json

# %% tarry list
tarry list orders --state dead

# %% tarry result
tarry configure reports --keep-finished 1d
tarry add reports '{"month": 5}' --id may
receipt=$(tarry pop reports --json | sed 's/.*"receipt":\([0-9]*\).*/\1/')
tarry finish reports may "$receipt" --result '{"total": 420}'
tarry result reports may

# %% tarry dead
tarry dead orders

# %% tarry delete
tarry delete orders 7

# %% tarry kick
tarry kick orders 9

# %% tarry reschedule
tarry reschedule orders 9 --delay 1h

# %% tarry release-holder
tarry release-holder orders web-1:4711

# %% tarry topics
tarry topics

# %% tarry stats
tarry stats orders

# %% tarry keys
tarry keys orders

# %% tarry histogram
tarry histogram orders

# %% tarry throughput
tarry throughput orders --span 1h

# %% tarry top
tarry top --once

# %% tarry check
tarry check orders

# %% tarry purge
tarry purge orders --state delayed --yes

# %% tarry pause
tarry pause orders --duration 10m

# %% tarry resume
tarry resume orders

# %% tarry configure
tarry configure orders --max-attempts 5 --rate 100/1m

# %% tarry migrate
tarry migrate orders --to-namespace archive --dry-run

# %% tarry worker python
# app.py
import tarry

worker = tarry.Worker("shop")


@worker.task
async def close(order: int) -> None: ...

# %% tarry worker
tarry worker app:worker > worker.log 2>&1 &
echo $! > worker.pid

# %% tarry workers
until tarry workers --json | grep shop; do sleep 0.1; done

# %% tarry worker-mode
name=$(tarry workers --json | sed 's/^{"name":"\([^"]*\)".*/\1/')
tarry worker-mode "$name" quiet
kill "$(cat worker.pid)"

# %% tarry serve (not run: it serves until it is stopped; HTTPClient's example runs it)
tarry serve --port 7070

# %% tarry demo
tarry demo --jobs 20 --seconds 1

# %% tarry doctor
tarry doctor --dry-run

# %% tarry token create
tarry token create --scope produce --note 'the shop'

# %% tarry token list
tarry token list

# %% tarry token revoke
id=$(tarry token list --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
tarry token revoke "$id"

# %% tarry celery-relay (not run: it runs until it is stopped)
tarry celery-relay shop:app

# %% tarry schedule put
tarry schedule put reports daily '{"kind": "sales"}' --cron '0 9 * * 1-5' --tz Europe/Berlin

# %% tarry schedule list
tarry schedule list reports

# %% tarry schedule get
tarry schedule get reports daily

# %% tarry schedule pause
tarry schedule pause reports daily

# %% tarry schedule resume
tarry schedule resume reports daily

# %% tarry schedule delete
tarry schedule delete reports daily

# %% tarry delayed-queue offer
export TARRY_REDISSON=3.50.0
tarry delayed-queue offer mails '"order 7"' '"order 8"' --delay 30m

# %% tarry delayed-queue list
tarry delayed-queue list mails --redisson 3.50.0

# %% tarry delayed-queue stats
tarry delayed-queue stats mails

# %% tarry delayed-queue format
tarry delayed-queue format mails

# %% tarry delayed-queue move
tarry delayed-queue move mails

# %% tarry delayed-queue migrate
tarry delayed-queue migrate mails letters --redisson 3.50.0

# %% tarry map-cache put
tarry map-cache put prices tea '"4.20"' --ttl 10m --codec string

# %% tarry map-cache get
tarry map-cache get prices tea --codec string

# %% tarry map-cache delete
tarry map-cache delete prices tea --codec string

# %% tarry map-cache list
tarry map-cache list prices --codec string

# %% tarry map-cache stats
tarry map-cache stats prices

# %% tarry map-cache evict
tarry map-cache evict prices

# %% tarry map-cache clear
tarry map-cache clear prices

# %% tarry lock list
tarry lock list

# %% tarry lock get
tarry lock get stock

# %% tarry lock force-release
tarry lock force-release stock || echo 'nobody had it'

# %% tarry guarded-queue push
tarry guarded-queue push reminders '"order 7"' --delay 0

# %% tarry guarded-queue poll
tarry guarded-queue poll reminders --wait 1s

# %% tarry guarded-queue stats
tarry guarded-queue stats reminders

# %% tarry guarded-queue clear
tarry guarded-queue clear reminders
