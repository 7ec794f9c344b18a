// An exported session: search, replay, keys. It adds to a page that reads well without it, and asks nobody.
"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const made = (name, set = {}, ...children) => {
    const element = Object.assign(document.createElement(name), set);
    element.append(...children);
    return element;
  };
  const texts = document.body.dataset;
  const articles = all("article");
  const heads = all("article.turn");
  const slider = made("input", { type: "range", min: 0, max: articles.length, value: articles.length, title: texts.replay });
  slider.setAttribute("aria-label", texts.replay);
  const count = made("small");
  const search = made("input", { type: "search", className: "filter", placeholder: texts.filter });
  search.setAttribute("aria-label", texts.filter);
  const hits = made("small");
  hits.setAttribute("role", "status");
  const theme = made("button", { type: "button", textContent: "◐", title: texts.theme });
  theme.setAttribute("aria-label", texts.theme);
  document.body.prepend(made("div", { className: "bar" }, slider, count, search, hits, theme));

  // An article is shown where it has happened by the slider and has all the words.
  const wordsOf = new Map();
  function show(follow) {
    const until = Number(slider.value);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    articles.forEach((article, at) => {
      if (words.length && !wordsOf.has(article)) wordsOf.set(article, article.textContent.toLowerCase());
      const hit = words.every((word) => wordsOf.get(article).includes(word));
      article.classList.toggle("hidden", at >= until || !hit);
      if (at < until && hit) {
        found += 1;
        if (words.length) all("details", article).forEach((details) => { details.open = true; });
      }
    });
    count.textContent = `${until} / ${articles.length}`;
    hits.textContent = words.length ? String(found) : "";
    if (follow) all("article:not(.hidden)").pop()?.scrollIntoView({ block: "end" });
  }
  slider.addEventListener("input", () => show(true));
  search.addEventListener("input", () => show(false));

  const goTo = (turn) => document.getElementById(`turn-${turn}`)?.scrollIntoView();
  function turnInView() {
    const seen = heads.filter((head) => head.getBoundingClientRect().top <= 60);
    return Number((seen[seen.length - 1] || heads[0])?.dataset.turn || 0);
  }
  document.addEventListener("click", (event) => {
    const bar = event.target.closest(".plot [data-turn]");
    if (bar) goTo(bar.dataset.turn);
  });

  function turnTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }
  theme.addEventListener("click", turnTheme);

  function step(by) {
    slider.value = Number(slider.value) + by;
    show(true);
  }
  const KEYS = {
    "/": () => search.focus(),
    j: () => goTo(turnInView() + 1),
    k: () => goTo(turnInView() - 1),
    "[": () => step(-1),
    "]": () => step(1),
    t: () => {
      const folded = all(".thinking");
      const open = folded.some((details) => !details.open);
      folded.forEach((details) => { details.open = open; });
    },
    d: turnTheme,
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.activeElement.blur?.();
    if (event.target.matches("input:not([type=range])") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  show(false);
})();
