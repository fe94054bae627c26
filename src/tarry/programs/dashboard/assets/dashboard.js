// The page works without this. With it: it is live, says when it is not, shows your own time zone, and asks in place.
"use strict";
(() => {
  const view = document.getElementById("view");
  const sign = document.getElementById("sign");
  const lost = document.getElementById("lost");
  const ask = document.getElementById("ask");
  const same = { createHTML: (text) => text };
  const policy = window.trustedTypes ? window.trustedTypes.createPolicy("tarry", same) : same;
  // A parsed document is inert: its scripts never run, and the policy of the page forbids handlers.
  const parse = (html) => new DOMParser().parseFromString(policy.createHTML(html), "text/html");

  // ── your own time zone ──
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const year = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
  const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const said = (at) => (Math.abs(at - Date.now()) < 43200e3 && at.getDate() === new Date().getDate() ? clock.format(at) : `${(at.getFullYear() === new Date().getFullYear() ? day : year).format(at)}, ${clock.format(at)}`);
  const marked = { ms: (at) => `${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`, s: (at) => clock.format(at), m: (at) => short.format(at), d: (at) => day.format(at), y: (at) => year.format(at) };
  function localise(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      time.title = time.textContent;
      time.textContent = said(new Date(time.dateTime));
    }
    for (const text of root.querySelectorAll("text[data-at]")) text.textContent = (marked[text.dataset.style] || said)(new Date(text.dataset.at));
  }

  // ── live ──
  const pace = Number(view.dataset.live || 0) * 1000;
  let source = null, heard = 0, held = null, again = null, shown = new Date();
  const WORDS = { live: "live", held: "held while you choose", broken: "connection lost", lost: "server lost", still: "not live", opening: "connecting" };
  function tell(state, why) {
    if (sign.dataset.state !== state) {
      sign.dataset.state = state;
      sign.querySelector(".word").textContent = WORDS[state];
    }
    const old = state === "broken" || state === "lost";
    document.body.classList.toggle("is-old", old);
    if (old === lost.hidden || (old && lost.dataset.why !== why)) {
      lost.hidden = !old;
      lost.dataset.why = why || "";
      const head = document.createElement("strong");
      head.textContent = state === "lost" ? "The server does not answer. " : "The connection is lost. ";
      lost.replaceChildren(head, `${why || ""} What you see is of ${clock.format(shown)}. It is tried again by itself.`);
    }
  }
  // what somebody has ticked or typed and not sent yet; a part that is never replaced loses nothing
  const chosen = () => [...view.querySelectorAll("input")].some((one) => !one.closest("[data-keep]") && (one.checked !== one.defaultChecked || (one.type === "text" && one.value !== one.defaultValue)));
  const kept = { beforeNodeMorphed: (node) => !(node.nodeType === 1 && node.hasAttribute("data-keep")), beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"), beforeNodeRemoved: (node) => !(node.nodeType === 1 && node.hasAttribute("data-mine")) };
  function show(html) {
    const fresh = parse(html).body;
    localise(fresh);
    Idiomorph.morph(view, [...fresh.childNodes], { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: kept });
    shown = new Date();
  }
  function settle() {
    if (held === null) return;
    if (chosen() || ask.open || dragging) return tell("held");
    show(held);
    held = null;
    tell("live");
  }
  function open() {
    close();
    if (!pace || document.hidden) return;
    heard = Date.now();
    source = new EventSource(location.href);
    const on = (kind, act) => source.addEventListener(kind, (event) => { heard = Date.now(); act(JSON.parse(event.data)); });
    on("hello", (version) => {
      if (version !== document.documentElement.dataset.version && sessionStorage.getItem("tarry-version") !== version) {
        sessionStorage.setItem("tarry-version", version);
        location.reload();
      }
    });
    on("view", (html) => { held = html; settle(); });
    on("beat", () => { if (held === null) { shown = new Date(); tell("live"); } else settle(); });
    on("lost", (why) => tell("lost", why));
    on("gone", () => { close(); location.reload(); });
    source.onerror = () => {
      tell("broken");
      if (source && source.readyState === EventSource.CLOSED) { close(); again = setTimeout(knock, 1500); }
    };
  }
  function close() {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  }
  async function knock() { // refused, not unreachable: signed out, perhaps; the page itself knows
    try {
      const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 403 || answer.status === 404) return location.reload();
    } catch { /* still nobody there */ }
    open();
  }
  if (pace) {
    tell("opening");
    setInterval(() => {
      if (source && Date.now() - heard > 2 * pace + 6000) { tell("broken"); open(); }
    }, 1000);
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("beforeunload", () => { close(); again = setTimeout(open, 15000); }); // what comes next is shown, not this page's end
    addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  }
  const here = new URL(location.href);
  if (here.searchParams.delete("said"), here.href !== location.href) history.replaceState(null, "", here);

  // ── the line of time: read it, drag over it ──
  let dragging = null;
  const hair = Object.assign(document.createElement("div"), { className: "hair", hidden: true });
  const brush = Object.assign(document.createElement("div"), { className: "brush", hidden: true });
  hair.setAttribute("data-mine", ""); brush.setAttribute("data-mine", "");
  function place(line, x) { // which bar is at x, and what time that is
    for (const stretch of line.querySelectorAll(".stretch")) {
      const box = stretch.getBoundingClientRect();
      if (x < box.left || x > box.right) continue;
      const counts = stretch.dataset.counts.split(","), share = (x - box.left) / box.width;
      const index = Math.min(Math.floor(share * counts.length), counts.length - 1), step = stretch.dataset.step * 1000, from = Date.parse(stretch.dataset.from);
      return { at: from + share * counts.length * step, start: from + index * step, step, count: Number(counts[index]), stretch, index, counts };
    }
    return null;
  }
  function read(line, found, x) {
    const box = line.getBoundingClientRect();
    line.append(hair, brush);
    hair.hidden = !found;
    if (!found) return;
    hair.style.left = `${x - box.left - line.clientLeft}px`;
    const jobs = found.count === 1 ? "1 job" : `${found.count.toLocaleString()} jobs`;
    const beyond = found.stretch.classList.contains("later") ? "later" : found.stretch.classList.contains("past") && found.index === 0 && found.counts.length > 1 && line.classList.contains("whole") ? "longer ago" : said(new Date(found.start)) + (found.step < 1000 ? `.${String(new Date(found.start).getMilliseconds()).padStart(3, "0")}` : "");
    line.querySelector(".readout").textContent = `${jobs} · ${beyond}`;
  }
  view.addEventListener("pointermove", (event) => {
    const line = event.target.closest(".time-line");
    if (!line && !dragging) { hair.hidden = true; return; }
    const on = dragging ? dragging.line : line, found = place(on, event.clientX);
    read(on, found, event.clientX);
    if (dragging && found && Math.abs(event.clientX - dragging.x) > 6) {
      const left = on.getBoundingClientRect().left + on.clientLeft;
      brush.hidden = false;
      brush.style.left = `${Math.min(event.clientX, dragging.x) - left}px`;
      brush.style.width = `${Math.abs(event.clientX - dragging.x)}px`;
      dragging.to = found.at;
    }
  });
  view.addEventListener("pointerleave", () => { hair.hidden = true; for (const text of view.querySelectorAll(".readout")) text.textContent = ""; });
  view.addEventListener("pointerdown", (event) => {
    const line = event.target.closest(".time-line"), found = line && event.button === 0 && place(line, event.clientX);
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
    const line = event.target.closest(".time-line.zoomed"), found = line && place(line, event.clientX);
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
      read(line, place(line, x(Number(stretch.dataset.at))), x(Number(stretch.dataset.at)));
    } else if (event.key === "Enter" && at >= 0) jobs(line, place(line, x(at)));
  });

  // ── asking in place ──
  addEventListener("submit", async (event) => {
    const form = event.target, action = form.getAttribute("action") || "";
    if (form.method !== "post" || !action.endsWith("/act") || form.closest("#ask")) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(action, { method: "POST", body });
      if (answer.redirected) { close(); return location.assign(answer.url); }
      const fresh = parse(await answer.text()), sure = fresh.getElementById("sure");
      if (sure) ask.replaceChildren(document.importNode(sure, true));
      else {
        const text = Object.assign(document.createElement("section"), { className: "sure" });
        const head = Object.assign(document.createElement("h1"), { id: "sure-title", textContent: fresh.querySelector("h1")?.textContent || "That was not done" });
        const why = Object.assign(document.createElement("p"), { textContent: fresh.querySelector(".lead")?.textContent || "" });
        const well = Object.assign(document.createElement("button"), { textContent: "Well", type: "button" });
        well.setAttribute("data-close", "");
        const row = document.createElement("form");
        row.append(well);
        text.append(head, why, row);
        ask.replaceChildren(text);
      }
      ask.showModal();
    } catch {
      tell("broken", "It is not known whether this was done.");
    }
  });
  ask.addEventListener("click", (event) => {
    if (event.target === ask || event.target.closest("[data-close]")) { event.preventDefault(); ask.close(); }
  });
  ask.addEventListener("close", settle);

  // ── choosing ──
  view.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of view.querySelectorAll("input[name=id]")) box.checked = event.target.checked;
    settle();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      document.querySelector(".find input")?.focus();
    }
  });

  localise(document);
  if (pace) open();
})();
