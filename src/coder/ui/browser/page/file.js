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
  document.body.prepend(made("div", { className: "bar" }, made("small", { textContent: texts.replay }), slider, count, search, hits, theme));

  // An article is shown where it has happened by the slider and has all the words.
  const wordsOf = new Map();
  const rewinds = JSON.parse(texts.rewinds);
  function show(follow) {
    const until = Number(slider.value);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    // Rewinds that have happened by the slider and were not taken back by then.
    const now = articles[until] ? Number(articles[until].dataset.at) : Infinity;
    const past = rewinds.filter(([, end, back]) => end < now && (back === null || back >= now));
    let found = 0;
    articles.forEach((article, at) => {
      if (words.length && !wordsOf.has(article)) wordsOf.set(article, article.textContent.toLowerCase());
      const hit = words.every((word) => wordsOf.get(article).includes(word));
      article.classList.toggle("hidden", at >= until || !hit);
      const place = Number(article.dataset.at);
      article.classList.toggle("rewound", past.some(([start, end]) => start <= place && place < end));
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

  let visited = {};
  function goTo(head) {
    head?.scrollIntoView();
    visited = { head, top: scrollY };
  }
  function goOn(by) {
    const above = heads.filter((head) => head.getBoundingClientRect().top <= 60);
    const here = visited.top === scrollY ? visited.head : above[above.length - 1] || heads[0]; // the last ones cannot be at the top
    const next = heads[heads.indexOf(here) + by];
    if (next) goTo(next);
  }
  document.addEventListener("click", (event) => {
    const bar = event.target.closest(".plot [data-turn]");
    if (bar) goTo(document.getElementById(`turn-${bar.dataset.turn}`));
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
    j: () => goOn(1),
    k: () => goOn(-1),
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
