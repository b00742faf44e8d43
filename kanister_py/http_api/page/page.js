"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // If storage is not allowed, the choice is lost when the page is closed.
  const memory = {
    read() {
      try {
        return localStorage.getItem("kanister-py-theme") || "auto";
      } catch {
        return "auto";
      }
    },
    write(theme) {
      try {
        localStorage.setItem("kanister-py-theme", theme);
      } catch {
        // The choice is not stored.
      }
    },
  };

  const themes = { auto: ["Auto", "as the system has them"], light: ["Light", "light"], dark: ["Dark", "dark"] };
  let theme = memory.read() in themes ? memory.read() : "auto";
  const applyTheme = () => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };
  // Before the page is drawn, so that it does not flash in the other colours.
  applyTheme();

  document.addEventListener("DOMContentLoaded", () => {
    themeButton(document.getElementById("_theme"));
    copyButtons();
    linksInto();
    if (document.getElementById("_find")) search();
  });

  function themeButton(button) {
    const show = () => {
      const [name, title] = themes[theme];
      document.getElementById("_theme-name").textContent = name;
      button.setAttribute("aria-label", `Colours: ${title}`);
      button.title = `Colours: ${title}`;
    };
    button.addEventListener("click", () => {
      const names = Object.keys(themes);
      theme = names[(names.indexOf(theme) + 1) % names.length];
      memory.write(theme);
      applyTheme();
      show();
    });
    show();
  }

  function copyButtons() {
    document.addEventListener("click", async (event) => {
      const button = event.target.closest(".copy");
      if (!button) return;
      const text = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        // Without access to the clipboard, select the text so that the user can copy it.
        getSelection().selectAllChildren(text);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }

  // Links use #Name or #Name@v1.2.3. #/Name@1.2.3 and other cases are accepted, too.
  function targetOf(hash) {
    let name;
    try {
      name = decodeURIComponent(hash.replace(/^#\/?/, ""));
    } catch {
      return null;
    }
    if (!name || name.startsWith("_")) return null;
    const exact = document.getElementById(name);
    if (exact) return exact;
    const wanted = name.replace(/@(?=\d)/, "@v").toLowerCase();
    const known = document.querySelectorAll("article.function, details.version");
    return [...known].find((each) => each.id.toLowerCase() === wanted) || null;
  }

  function follow() {
    const target = targetOf(location.hash);
    if (!target) return;
    target.closest("article")?.removeAttribute("hidden");
    for (let each = target; each; each = each.parentElement) {
      each.removeAttribute("hidden");
      if (each.tagName === "DETAILS") each.open = true;
    }
    target.scrollIntoView({ block: "start" });
    (target.querySelector("summary, h2 a") || target).focus({ preventScroll: true });
  }

  function linksInto() {
    addEventListener("hashchange", follow);
    follow();
    // A link to the current anchor causes no hashchange event.
    document.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      if (link && link.hash === location.hash) follow();
    });
  }

  function search() {
    const form = document.getElementById("_find");
    const query = document.getElementById("_query");
    const found = document.getElementById("_found");
    const nothing = document.getElementById("_nothing");
    const functions = [...document.querySelectorAll("article.function")].map((article) => ({
      article,
      words: article.dataset.words,
      entry: document.querySelector(`.index li[data-function="${CSS.escape(article.id)}"]`),
      versions: [...article.querySelectorAll("details.version")],
      gone: article.querySelector("details.gone"),
    }));

    const asked = new URLSearchParams(location.search);
    query.value = asked.get("q") || "";
    const chosen = form.querySelector(`input[value="${CSS.escape(asked.get("status") || "")}"]`);
    if (chosen) chosen.checked = true;

    const apply = () => {
      const words = query.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const status = form.querySelector("input[name=status]:checked").value;
      let functionCount = 0;
      let versionCount = 0;
      for (const each of functions) {
        let shown = 0;
        const fits = words.every((word) => each.words.includes(word));
        for (const version of each.versions) {
          const isShown = fits && (!status || version.dataset.status === status);
          version.hidden = !isShown;
          shown += isShown;
        }
        if (each.gone) {
          each.gone.hidden = !each.gone.querySelector("details.version:not([hidden])");
          if (status === "removed") each.gone.open = true;
        }
        each.article.hidden = !shown;
        if (each.entry) each.entry.hidden = !shown;
        functionCount += shown > 0;
        versionCount += shown;
      }
      nothing.hidden = functionCount > 0;
      const isAll = !words.length && !status;
      const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
      found.textContent = isAll ? "" : `${plural(functionCount, "function")}, ${plural(versionCount, "version")}`;
      const kept = new URLSearchParams();
      if (query.value.trim()) kept.set("q", query.value.trim());
      if (status) kept.set("status", status);
      const text = kept.toString();
      history.replaceState(null, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
    };
    const clear = () => {
      query.value = "";
      form.querySelector('input[name=status][value=""]').checked = true;
      apply();
      query.focus();
    };

    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("_clear").addEventListener("click", clear);
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest("input[type=search], textarea, select");
      if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        query.focus();
        query.select();
      } else if (event.key === "Escape" && event.target === query) {
        clear();
      }
    });
    if (query.value || asked.get("status")) apply();
    // The target of the URL is shown even if the search does not match it.
    follow();
  }
})();
