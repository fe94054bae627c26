# The example of docs/reference/metrics.md. The tests run that page.

# %% metrics
tarry serve --port 7117 > service.log 2>&1 &
echo $! > service.pid
until grep -iE 'service at|error' service.log; do sleep 0.2; done
tarry add orders '{"order": 7}'
curl -s localhost:7117/metrics | grep 'tarry_jobs{.*topic="orders"'
kill "$(cat service.pid)"
