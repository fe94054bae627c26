// The page works without this script. With it, the page is live, shows when it is not, uses your time zone, and confirms in a dialog.
"use strict";
(() => {
  const view = document.getElementById("view");
  const liveStatus = document.getElementById("sign");
  const lostBanner = document.getElementById("lost");
  const confirmDialog = document.getElementById("ask");
  const unchanged = { createHTML: (text) => text };
  const policy = window.trustedTypes ? window.trustedTypes.createPolicy("tarry", unchanged) : unchanged;
  // A parsed document is inert: its scripts never run, and the policy of the page forbids handlers.
  const parse = (html) => new DOMParser().parseFromString(policy.createHTML(html), "text/html");

  // ── the visitor's time zone ──
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const year = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
  const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
  const zoneOf = (at) => zone.formatToParts(at).find((part) => part.type === "timeZoneName").value;
  const formatMoment = (at, digits = "") => `${formatDay(at)}${digits} ${zoneOf(at)}`;
  const formatDay = (at) => (Math.abs(at - Date.now()) < 43200e3 && at.getDate() === new Date().getDate() ? clock.format(at) : `${(at.getFullYear() === new Date().getFullYear() ? day : year).format(at)}, ${clock.format(at)}`);
  const markFormats = { ms: (at) => `${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`, s: (at) => clock.format(at), m: (at) => short.format(at), d: (at) => day.format(at), y: (at) => year.format(at) };
  function localise(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      time.title = time.textContent;
      time.textContent = formatMoment(new Date(time.dateTime));
    }
    const name = zone.resolvedOptions().timeZone, short = zoneOf(new Date());
    for (const text of root.querySelectorAll("[data-zone]")) text.textContent = name === short ? name : `${name}, ${short}`;
    for (const text of root.querySelectorAll("text[data-at]")) text.textContent = (markFormats[text.dataset.style] || formatMoment)(new Date(text.dataset.at));
  }

  // ── live ──
  const intervalMs = Number(view.dataset.live || 0) * 1000;
  let source = null, lastEventAt = 0, pendingView = null, retryTimer = null, shown = new Date();
  const STATUS_TEXTS = { live: "live", held: "paused while you select", broken: "connection lost", lost: "server lost", failed: "failed to load", still: "not live", opening: "connecting" };
  function setStatus(state, why) {
    if (liveStatus.dataset.state !== state) {
      liveStatus.dataset.state = state;
      liveStatus.querySelector(".word").textContent = STATUS_TEXTS[state];
    }
    const old = ["broken", "lost", "failed"].includes(state);
    document.body.classList.toggle("is-old", old);
    if (old === lostBanner.hidden || (old && lostBanner.dataset.why !== why)) {
      lostBanner.hidden = !old;
      lostBanner.dataset.why = why || "";
      const head = document.createElement("strong");
      head.textContent = { lost: "The server does not answer. ", failed: `${why} ` }[state] || "The connection is lost. ";
      const retry = state === "failed" ? "" : " This page keeps trying.";
      lostBanner.replaceChildren(head, `${state === "failed" ? "" : why || ""} The page shows the state at ${formatMoment(shown)}.${retry}`);
    }
  }
  // whether something is ticked or typed and not yet sent; a part that is never replaced loses nothing
  const hasUnsentInput = () => [...view.querySelectorAll("input")].some((input) => !input.closest("[data-keep]") && (input.checked !== input.defaultChecked || (input.type === "text" && input.value !== input.defaultValue)));
  // whether the arrow keys have chosen a bar of the time line: an update would move it, and Enter would do nothing
  const hasChosenBar = () => view.querySelector(".stretch[data-at]") !== null;
  const morphCallbacks = { beforeNodeMorphed: (node) => !(node.nodeType === 1 && node.hasAttribute("data-keep")), beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"), beforeNodeRemoved: (node) => !(node.nodeType === 1 && node.hasAttribute("data-mine")) };
  function show(html) {
    const fresh = parse(html).body;
    localise(fresh);
    Idiomorph.morph(view, [...fresh.childNodes], { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: morphCallbacks });
    shown = new Date();
  }
  function applyPending() {
    if (pendingView === null) return;
    if (hasUnsentInput() || hasChosenBar() || confirmDialog.open || dragging) return setStatus("held");
    show(pendingView);
    pendingView = null;
    setStatus("live");
  }
  function open() {
    close();
    if (!intervalMs || document.hidden) return;
    lastEventAt = Date.now();
    source = new EventSource(location.href);
    const on = (kind, act) => source.addEventListener(kind, (event) => { lastEventAt = Date.now(); act(JSON.parse(event.data)); });
    on("hello", (version) => {
      if (version !== document.documentElement.dataset.version && sessionStorage.getItem("tarry-version") !== version) {
        sessionStorage.setItem("tarry-version", version);
        location.reload();
      }
    });
    on("view", (html) => { pendingView = html; applyPending(); });
    on("beat", () => { if (pendingView === null) { shown = new Date(); setStatus("live"); } else applyPending(); });
    on("lost", (why) => setStatus("lost", why));
    on("failed", (why) => setStatus("failed", why));
    on("gone", () => { close(); location.reload(); });
    source.onerror = () => {
      setStatus("broken");
      if (source && source.readyState === EventSource.CLOSED) { close(); retryTimer = setTimeout(checkAccess, 1500); }
    };
  }
  function close() {
    clearTimeout(retryTimer);
    if (source) source.close();
    source = null;
  }
  async function checkAccess() { // the stream was refused: perhaps the visitor is signed out; the page itself answers that
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 403 || answer.status === 404) return location.reload();
    } catch { /* still unreachable */ }
    open();
  }
  if (intervalMs) {
    setStatus("opening");
    setInterval(() => {
      if (source && Date.now() - lastEventAt > 2 * intervalMs + 6000) { setStatus("broken"); open(); }
    }, 1000);
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("beforeunload", () => { close(); retryTimer = setTimeout(open, 15000); }); // no error while the browser leaves this page
    addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  }
  const here = new URL(location.href);
  if (here.searchParams.delete("said"), here.href !== location.href) history.replaceState(null, "", here);

  // ── the time line: a readout under the pointer, dragging to zoom ──
  let dragging = null;
  const crosshair = Object.assign(document.createElement("div"), { className: "crosshair", hidden: true });
  const brush = Object.assign(document.createElement("div"), { className: "brush", hidden: true });
  crosshair.setAttribute("data-mine", ""); brush.setAttribute("data-mine", "");
  function barAt(line, x) { // the bar at x, and its time
    for (const stretch of line.querySelectorAll(".stretch")) {
      const box = stretch.getBoundingClientRect();
      if (x < box.left || x > box.right) continue;
      const counts = stretch.dataset.counts.split(","), share = (x - box.left) / box.width;
      const index = Math.min(Math.floor(share * counts.length), counts.length - 1), step = stretch.dataset.step * 1000, from = Date.parse(stretch.dataset.from);
      return { at: from + share * counts.length * step, start: from + index * step, step, count: Number(counts[index]), stretch, index, counts };
    }
    return null;
  }
  function showReadout(line, found, x) {
    const box = line.getBoundingClientRect();
    line.append(crosshair, brush);
    crosshair.hidden = !found;
    if (!found) return;
    crosshair.style.left = `${x - box.left - line.clientLeft}px`;
    const jobs = found.count === 1 ? "1 job" : `${found.count.toLocaleString()} jobs`;
    const beyond = found.stretch.classList.contains("later") ? "later" : found.stretch.classList.contains("past") && found.index === 0 && found.counts.length > 1 && line.classList.contains("whole") ? "longer ago" : formatMoment(new Date(found.start), found.step < 1000 ? `.${String(new Date(found.start).getMilliseconds()).padStart(3, "0")}` : "");
    line.querySelector(".readout").textContent = `${jobs} · ${beyond}`;
  }
  view.addEventListener("pointermove", (event) => {
    const line = event.target.closest(".time-line");
    if (!line && !dragging) { crosshair.hidden = true; return; }
    const on = dragging ? dragging.line : line, found = barAt(on, event.clientX);
    showReadout(on, found, event.clientX);
    if (dragging && found && Math.abs(event.clientX - dragging.x) > 6) {
      const left = on.getBoundingClientRect().left + on.clientLeft;
      brush.hidden = false;
      brush.style.left = `${Math.min(event.clientX, dragging.x) - left}px`;
      brush.style.width = `${Math.abs(event.clientX - dragging.x)}px`;
      dragging.to = found.at;
    }
  });
  function clearReadout() { crosshair.hidden = true; for (const text of view.querySelectorAll(".readout")) text.textContent = ""; }
  view.addEventListener("pointerleave", clearReadout);
  view.addEventListener("pointerdown", (event) => {
    const line = event.target.closest(".time-line"), found = line && event.button === 0 && barAt(line, event.clientX);
    if (found && event.pointerType === "mouse") { dragging = { line, x: event.clientX, from: found.at, to: null }; }
  });
  addEventListener("pointerup", (event) => {
    if (!dragging) return;
    const { line, from, to } = dragging;
    brush.hidden = true;
    dragging = null;
    if (to === null) return;
    line.addEventListener("click", (click) => click.preventDefault(), { once: true, capture: true });
    setTimeout(() => go(line.dataset.zoom, { from: Math.floor(Math.min(from, to)), to: Math.ceil(Math.max(from, to)) }), 0);
    event.preventDefault();
  });
  view.addEventListener("dragstart", (event) => { if (event.target.closest(".time-line")) event.preventDefault(); });
  function go(path, words) {
    const to = new URL(path, location.href);
    if (to.origin !== location.origin) return;
    for (const [name, value] of Object.entries(words)) to.searchParams.set(name, value);
    location.assign(to);
  }
  function jobs(line, found) { if (line.dataset.jobs) go(line.dataset.jobs, { after: Math.floor(found.start), before: Math.ceil(found.start + found.step) }); }
  view.addEventListener("click", (event) => {
    const line = event.target.closest(".time-line.zoomed"), found = line && barAt(line, event.clientX);
    if (found && !event.defaultPrevented) jobs(line, found);
  });
  view.addEventListener("keydown", (event) => {
    const stretch = event.target.closest(".stretch.one");
    if (!stretch) return;
    const line = stretch.closest(".time-line"), box = stretch.getBoundingClientRect(), bars = stretch.dataset.counts.split(",").length;
    const at = Number(stretch.dataset.at || -1), next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: bars - 1 }[event.key];
    const x = (index) => box.left + ((index + 0.5) / bars) * box.width;
    if (next !== undefined) {
      event.preventDefault();
      stretch.dataset.at = Math.max(0, Math.min(next, bars - 1));
      showReadout(line, barAt(line, x(Number(stretch.dataset.at))), x(Number(stretch.dataset.at)));
    } else if (event.key === "Enter" && at >= 0) jobs(line, barAt(line, x(at)));
  });

  view.addEventListener("focusout", () => {
    const chosen = view.querySelector(".stretch[data-at]");
    if (!chosen) return;
    delete chosen.dataset.at; // the next update is shown
    clearReadout();
  });

  // ── confirmation in a dialog ──
  addEventListener("submit", async (event) => {
    const form = event.target, action = form.getAttribute("action") || "";
    if (form.method !== "post" || !action.endsWith("/act") || form.closest("#ask")) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(action, { method: "POST", body });
      if (answer.redirected) { close(); return location.assign(answer.url); }
      const fresh = parse(await answer.text()), question = fresh.getElementById("sure");
      if (question) confirmDialog.replaceChildren(document.importNode(question, true));
      else {
        const text = Object.assign(document.createElement("section"), { className: "sure" });
        const head = Object.assign(document.createElement("h1"), { id: "sure-title", textContent: fresh.querySelector("h1")?.textContent || "Nothing was done" });
        const why = Object.assign(document.createElement("p"), { textContent: fresh.querySelector(".lead")?.textContent || "" });
        const closeButton = Object.assign(document.createElement("button"), { textContent: "Close", type: "button" });
        closeButton.setAttribute("data-close", "");
        const row = document.createElement("form");
        row.append(closeButton);
        text.append(head, why, row);
        confirmDialog.replaceChildren(text);
      }
      confirmDialog.showModal();
    } catch {
      setStatus("broken", "It is unknown whether the action was done.");
    }
  });
  confirmDialog.addEventListener("click", (event) => {
    if (event.target === confirmDialog || event.target.closest("[data-close]")) { event.preventDefault(); confirmDialog.close(); }
  });
  confirmDialog.addEventListener("close", applyPending);

  // ── selection of jobs ──
  view.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of view.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
    applyPending();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      document.querySelector(".find input")?.focus();
    }
  });

  localise(document);
  if (intervalMs) open();
})();
