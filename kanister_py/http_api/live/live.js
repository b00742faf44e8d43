"use strict";
(() => {
  const MOST_LINES = 5000;
  const PAUSE = 500;
  const PATIENCE = 3000;

  const now = document.getElementById("now");
  const log = document.getElementById("log");

  // The server renders the part of the page that changes.
  let isAsking = false;
  let isWanted = false;
  async function refresh() {
    if (isAsking) {
      isWanted = true;
      return;
    }
    isAsking = true;
    isWanted = false;
    try {
      const answer = await fetch(now.dataset.from, { credentials: "same-origin", redirect: "error" });
      if (answer.ok) put(await answer.text());
    } catch {
      // The next change or poll retries.
    }
    setTimeout(() => {
      isAsking = false;
      if (isWanted) refresh();
    }, PAUSE);
  }

  function put(text) {
    const active = document.activeElement;
    const label = now.contains(active) ? active.getAttribute("aria-label") || active.textContent : null;
    now.innerHTML = text;
    if (label === null) return;
    // Keep the keyboard focus.
    const same = [...now.querySelectorAll("a, button, [tabindex]")].find(
      (each) => (each.getAttribute("aria-label") || each.textContent) === label,
    );
    if (same) same.focus({ preventScroll: true });
  }

  function listen(address) {
    const source = new EventSource(address);
    source.addEventListener("change", refresh);
    // If the stream has ended, the token may have expired: the reloaded page shows the sign-in.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), PATIENCE);
    });
    addEventListener("pagehide", () => source.close());
    return source;
  }

  function follow() {
    const source = listen(`${log.dataset.events}?${log.dataset.after}`);
    const state = document.getElementById("log-state");
    source.onmessage = (event) => {
      const { phase, line } = JSON.parse(event.data);
      const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
      const row = document.createElement("div");
      const name = document.createElement("span");
      name.className = "faint";
      name.textContent = phase;
      row.append(name, ` ${line}`);
      log.append(row);
      while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
      if (isAtEnd) log.scrollTop = log.scrollHeight;
      state.textContent = "";
    };
  }

  if (log) {
    log.scrollTop = log.scrollHeight;
    follow();
  } else if (now) {
    listen("/runs-events" + location.search);
  }
  for (const select of document.querySelectorAll(".choose select")) {
    select.addEventListener("change", () => select.form.submit());
  }
})();
