// The page of `coder view`. All HTML comes escaped from the server; texts are attributes of <body>.
"use strict";
const one = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const made = (name, set = {}, ...children) => {
  const element = Object.assign(document.createElement(name), set);
  element.append(...children);
  return element;
};
const texts = document.body.dataset;
document.body.classList.add("app");

// -- the server

const status = one("#status");
let token = sessionStorage.getItem("token") || "";

async function enter() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("code")) {
    const answer = await fetch("/api/token", { method: "POST", headers: { "X-Coder-Code": given.get("code") } });
    if (answer.ok) token = await answer.text();
  } else if (given.get("token")) token = given.get("token");
  sessionStorage.setItem("token", token);
  const open = new URLSearchParams();
  for (const name of ["a", "b"]) if (given.get(name)) open.set(name, given.get(name));
  history.replaceState(null, "", "#" + open); // the token does not stay in the address
}

async function ask(question, query = {}, signal) {
  const answer = await fetch(`/api/${question}?${new URLSearchParams(query)}`, {
    headers: { "X-Coder-Token": token },
    signal,
  });
  if (answer.status === 403) throw new Error(texts.noToken);
  if (!answer.ok) throw new Error(answer.status === 404 ? texts.gone : texts.failed);
  return answer.json();
}

// Images come with the token, so not by their address; each when it is about to be seen.
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    told(drawImage(target));
  }
}, { rootMargin: "600px" });

async function drawImage(img) {
  const query = new URLSearchParams({ s: img.closest(".pane").dataset.key, from: img.dataset.image });
  const answer = await fetch(`/api/image?${query}`, { headers: { "X-Coder-Token": token } });
  if (!answer.ok) return img.remove(); // no image that a browser should draw; its caption stays
  const url = URL.createObjectURL(await answer.blob());
  img.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
  img.src = url;
}

const told = (work) => work.catch((error) => {
  if (error.name !== "AbortError") status.textContent = error.message || texts.failed;
});

// -- a session

class Pane {
  constructor(key, place) {
    this.key = key;
    this.from = 0; // the record between these places is in the page
    this.next = 0;
    this.until = Infinity; // replayed up to this place
    this.ended = false;
    this.outline = null;
    this.following = null;
    this.loading = null;
    this.version = 0; // counts loads: an answer to a question before the last one is dropped
    this.slider = made("input", { type: "range", min: 0, max: 0, value: 0, title: texts.replay });
    this.slider.setAttribute("aria-label", texts.replay);
    this.title = made("b", { className: "title" });
    this.hits = made("small");
    this.hits.setAttribute("role", "status");
    this.count = made("small");
    this.follow = made("button", { type: "button", textContent: texts.follow, className: "follow" });
    this.filter = made("input", { type: "search", className: "filter", placeholder: texts.filter });
    this.filter.setAttribute("aria-label", texts.filter);
    const close = made("button", { type: "button", textContent: "×", title: texts.close, className: "close" });
    this.about = made("section", { className: "about" });
    this.events = made("section", { className: "events" });
    this.body = made("div", { className: "body", tabIndex: 0 }, this.about, this.events);
    const label = made("small", { textContent: texts.replay });
    const bar = made("div", { className: "bar" }, this.title, close, label, this.slider, this.count, this.filter, this.hits, this.follow);
    this.element = made("div", { className: "pane" }, bar, this.body);
    this.element.dataset.key = key;
    place.append(this.element);
    this.slider.addEventListener("input", () => told(this.replay(Number(this.slider.value))));
    this.filter.addEventListener("input", () => told(this.refresh()));
    this.follow.addEventListener("click", () => this.toggleFollow());
    close.addEventListener("click", () => closePane(this));
    this.body.addEventListener("scroll", () => told(this.scrolled()), { passive: true });
    new ResizeObserver(() => told(this.scrolled())).observe(this.body);
    this.body.addEventListener("click", (event) => told(this.clicked(event)));
  }

  async open(turn) {
    await this.load(0);
    await this.readOutline();
    told(this.scrolled());
    if (turn) await this.goTo(turn);
    else if (this.outline.live) this.toggleFollow();
  }

  close() {
    this.following?.abort();
    this.element.remove();
  }

  async load(from) {
    this.from = this.next = from;
    this.ended = false;
    this.loading = null;
    this.version += 1;
    this.events.replaceChildren();
    await this.more();
  }

  async more() {
    if (this.ended || this.loading) return this.loading;
    const version = this.version;
    const loading = this.loading = ask("events", { s: this.key, from: this.next });
    try {
      const page = await loading;
      if (version === this.version) this.add(page);
    } finally {
      if (this.loading === loading) this.loading = null;
    }
  }

  // The last line of a record may be torn: then the end is never reached.
  async toEnd() {
    for (let before = -1; !this.ended && this.next > before;) {
      before = this.next;
      await this.more();
    }
  }

  add(page) {
    this.events.insertAdjacentHTML("beforeend", page.html);
    this.next = page.next;
    this.ended = page.end;
    this.watchImages();
    this.markRewound();
    this.hideOthers();
  }

  watchImages() {
    for (const img of all("img[data-image]:not([src])", this.events)) seen.observe(img);
  }

  // What a rewind left behind, as of the replayed step: the rewind has happened and was not taken back.
  markRewound() {
    const now = this.until;
    const past = (this.outline?.rewound || []).filter(([, end, back]) => end < now && (back === null || back >= now));
    const gone = (at) => past.some(([start, end]) => start <= at && at < end);
    for (const article of all("article[data-at]", this.events)) {
      const left = gone(Number(article.dataset.at));
      article.classList.toggle("rewound", left);
      const head = left && one("h2", article);
      if (head && !one(".gone", head)) head.append(" ", made("span", { className: "badge gone", textContent: texts.rewound }));
    }
    this.outline?.turns.forEach((turn, at) => one(".turns", this.about)?.children[at]?.classList.toggle("rewound", gone(turn.at)));
  }

  async earlier() {
    const before = (this.outline?.marks || []).filter(([, place]) => place < this.from);
    if (!before.length || this.loading) return;
    const [, place] = before[before.length - 1];
    const held = this.body.scrollHeight;
    let at = place, html = "";
    const version = this.version;
    const loading = this.loading = (async () => {
      while (at < this.from) {
        const page = await ask("events", { s: this.key, from: at, n: 50 });
        html += page.html;
        if (page.next <= at) break;
        at = page.next;
      }
    })();
    try {
      await loading;
    } finally {
      if (this.loading === loading) this.loading = null;
    }
    if (version !== this.version) return;
    this.events.insertAdjacentHTML("afterbegin", html);
    this.watchImages();
    this.markRewound();
    this.hideOthers();
    this.from = place;
    this.body.scrollTop += this.body.scrollHeight - held;
  }

  async scrolled() {
    const body = this.body;
    if (body.scrollTop < 200 && this.from > 0) await this.earlier();
    // Pages may be low: much of a record is not shown, or filtered out.
    while (!this.ended && this.next < this.until && body.isConnected && body.scrollHeight - body.scrollTop - body.clientHeight < 1200) {
      const before = this.next;
      await this.more();
      if (this.next <= before) return;
    }
  }

  async readOutline() {
    const found = await ask("outline", { s: this.key });
    this.outline = found;
    const atEnd = Number(this.slider.value) === Number(this.slider.max);
    this.title.textContent = this.title.title = found.title;
    this.slider.max = found.events;
    if (atEnd) this.slider.value = found.events;
    this.showCount();
    const parts = [made("p", { className: "legend", textContent: found.summary })];
    if (found.plot) {
      const plot = made("div");
      plot.innerHTML = found.plot;
      parts.push(plot);
    }
    const turns = made("ol", { className: "turns" });
    for (const turn of found.turns) {
      const link = made("a", { href: "#", textContent: `${turn.text} ${turn.check === "passed" ? "✓" : turn.check === "failed" ? "✗" : ""}` });
      link.dataset.go = turn.turn;
      turns.append(made("li", { value: turn.turn }, link));
    }
    const files = made("ul", { className: "files" });
    for (const file of found.files) {
      const name = made("button", { type: "button", className: "file", title: texts.file }, made("code", { textContent: file.path }));
      name.setAttribute("aria-expanded", "false");
      name.dataset.at = file.at.join(" ");
      const row = made("li", {}, name, " ");
      for (const turn of file.turns) {
        const link = made("a", { href: "#", textContent: `${turn} ` });
        link.dataset.go = turn;
        row.append(link);
      }
      files.append(row);
    }
    const folded = (label, list) => made("details", {}, made("summary", { textContent: `${label} (${list.children.length})` }), list);
    const open = all("details", this.about).map((details) => details.open);
    parts.push(folded(texts.turns, turns), folded(texts.files, files));
    this.about.replaceChildren(...parts);
    all("details", this.about).forEach((details, at) => { details.open = Boolean(open[at]); });
    this.markRewound();
  }

  showCount() {
    this.count.textContent = `${this.slider.value} / ${this.slider.max}`;
  }

  async goTo(turn) {
    const row = this.outline.turns.find((one) => one.turn === turn);
    if (!row) return;
    if (row.at >= this.until) await this.replay(row.event + 1); // has not happened yet
    if (row.at < this.from || row.at >= this.next) await this.load(row.at);
    one(`#turn-${turn}`, this.events)?.scrollIntoView();
    this.visited = { turn, top: this.body.scrollTop };
  }

  async goOn(by) {
    const here = this.turnInView();
    const turns = by > 0 ? this.outline.turns : [...this.outline.turns].reverse();
    const next = turns.find((one) => by * (one.turn - here) > 0);
    if (next) await this.goTo(next.turn);
  }

  turnInView() {
    if (this.visited?.top === this.body.scrollTop) return this.visited.turn; // the last turns cannot be at the top
    const top = this.body.getBoundingClientRect().top + 4;
    const heads = all("article.turn", this.events);
    const seen = heads.filter((head) => head.getBoundingClientRect().top <= top);
    return Number((seen[seen.length - 1] || heads[0])?.dataset.turn || 0);
  }

  // Replay: the first `count` events are there, the others have not happened yet.
  async replay(count) {
    this.slider.value = count;
    this.showCount();
    const marks = this.outline.marks.filter(([before]) => before <= count);
    const [before, place] = marks[marks.length - 1] || [0, 0];
    const page = await ask("events", { s: this.key, from: place, n: Math.max(1, count - before) });
    const until = count > before ? page.next : place;
    if (Number(this.slider.value) !== count) return; // moved on meanwhile
    if (place < this.from || place > this.next) await this.load(this.outline.marks.filter(([, at]) => at <= place).slice(-2)[0]?.[1] || 0);
    while (this.next < until && !this.ended) await this.more();
    const whole = count >= this.outline.events;
    this.until = whole ? Infinity : until;
    this.hideOthers();
    this.markRewound();
    const shown = all("article:not(.hidden)", this.events);
    shown[shown.length - 1]?.scrollIntoView({ block: "end" });
  }

  // An event is shown where it has happened by the slider and has all the words.
  hideOthers() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const article of all("article", this.events)) {
      const text = words.length ? article.textContent.toLowerCase() : "";
      const hit = words.every((word) => text.includes(word));
      const shown = hit && Number(article.dataset.at) < this.until;
      article.classList.toggle("hidden", !shown);
      found += shown;
      if (shown && words.length) all("details", article).forEach((details) => { details.open = true; });
    }
    this.hits.textContent = words.length ? `${found}${this.ended || this.next >= this.until ? "" : " …"}` : "";
  }

  async refresh() {
    this.hideOthers();
    await this.scrolled();
  }

  async clicked(event) {
    const go = event.target.closest("[data-go], .hit[data-turn]");
    if (go) {
      event.preventDefault();
      await this.goTo(Number(go.dataset.go || go.dataset.turn));
    } else if (event.target.closest("button.file")) {
      await this.showFile(event.target.closest("button.file"));
    } else if (event.target.matches("button.more")) {
      const article = event.target.closest("article");
      const whole = await ask("event", { s: this.key, from: article.dataset.at });
      const opened = all("details", article).map((details) => details.open);
      article.insertAdjacentHTML("afterend", whole.html);
      const put = article.nextElementSibling;
      all("details", put).forEach((details, at) => { details.open = Boolean(opened[at]); });
      article.remove();
    }
  }

  // A file's history: each of its changes, below its name.
  async showFile(name) {
    const row = name.parentElement, shown = one(".changes", row);
    name.setAttribute("aria-expanded", String(!shown));
    if (shown) return shown.remove();
    const place = made("div", { className: "changes" });
    row.append(place);
    for (const at of name.dataset.at.split(" ")) {
      const change = await ask("event", { s: this.key, from: at });
      if (!place.isConnected) return;
      place.insertAdjacentHTML("beforeend", change.html);
    }
  }

  toggleFollow() {
    if (this.following) {
      this.following.abort();
      this.following = null;
    } else {
      const controller = this.following = new AbortController();
      told(this.followOn(controller).finally(() => this.following === controller && this.toggleFollow()));
    }
    this.follow.setAttribute("aria-pressed", String(Boolean(this.following)));
  }

  async followOn(controller) {
    if (!this.ended) await this.load(this.outline.marks.slice(-2)[0]?.[1] || 0);
    await this.toEnd();
    this.body.scrollTop = this.body.scrollHeight;
    while (this.following === controller) {
      const page = await ask("follow", { s: this.key, from: this.next }, controller.signal);
      const another = page.next < this.next; // the record was cut or replaced
      if (!page.count && !another) continue;
      const low = this.body.scrollHeight - this.body.scrollTop - this.body.clientHeight < 160;
      if (another) {
        await this.load(0);
        await this.toEnd();
      } else this.add(page);
      if (low) this.body.scrollTop = this.body.scrollHeight;
      await this.readOutline();
    }
  }
}

// -- panes and the list

const panes = [];
const holder = one("#panes");
const current = () => panes.find((pane) => pane.element.contains(document.activeElement)) || panes[0];

function remember() {
  const open = new URLSearchParams();
  panes.forEach((pane, at) => open.set("ab"[at], pane.key));
  history.replaceState(null, "", "#" + open);
  all("#list li").forEach((row) => row.classList.toggle("open", panes.some((pane) => pane.key === one("a", row)?.dataset.open)));
}

async function openSession(key, at = 0, turn = 0) {
  one(".empty")?.remove();
  panes[at]?.close();
  const pane = new Pane(key, holder);
  panes[at] = pane;
  if (at === 0 && panes[1]) holder.prepend(pane.element);
  remember();
  if (matchMedia("(max-width: 700px)").matches) showList(false);
  pane.body.focus({ preventScroll: true }); // the keys are for it
  await pane.open(turn);
}

function closePane(pane) {
  pane.close();
  panes.splice(panes.indexOf(pane), 1);
  remember();
  if (!panes.length) showList(true);
}

function showList(shown) {
  document.body.classList.toggle("hide-list", !shown);
  one("#menu").setAttribute("aria-expanded", String(shown));
}

let asked = 0;
async function list() {
  const number = ++asked;
  const found = await ask("list", { q: one("#search").value, all: one("#everywhere").checked ? "1" : "0" });
  if (number !== asked) return;
  one("#list ol").innerHTML = found.html;
  status.textContent = found.count ? "" : texts.nothing;
  remember();
}

let waiting = 0;
one("#search").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => told(list()), 150);
  showList(true);
});
one("#everywhere").addEventListener("change", () => told(list()));
one("#list").addEventListener("click", (event) => {
  const open = event.target.closest("[data-open]");
  const beside = event.target.closest("[data-beside]");
  if (open || beside) event.preventDefault();
  if (open) told(openSession(open.dataset.open, 0, Number(open.dataset.go || 0)));
  if (beside) told(openSession(beside.dataset.beside, panes.length ? 1 : 0));
});
one("#menu").addEventListener("click", () => showList(document.body.classList.contains("hide-list")));
one("#theme").addEventListener("click", turnTheme);
one("#help").addEventListener("click", () => one("#keys").showModal());
one("#close-keys").addEventListener("click", () => one("#keys").close());

function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");

// -- keys

const KEYS = {
  "/": () => one("#search").focus(),
  j: (pane) => pane.goOn(1),
  k: (pane) => pane.goOn(-1),
  "[": (pane) => pane.replay(Math.max(0, Number(pane.slider.value) - 1)),
  "]": (pane) => pane.replay(Math.min(pane.outline.events, Number(pane.slider.value) + 1)),
  t: () => {
    const folded = all(".thinking");
    const open = folded.some((details) => !details.open);
    folded.forEach((details) => { details.open = open; });
  },
  l: (pane) => pane.toggleFollow(),
  m: () => showList(document.body.classList.contains("hide-list")),
  d: turnTheme,
  x: (pane) => closePane(panes[panes.length - 1] || pane),
  "?": () => one("#keys").showModal(),
};
// From the search field into the list, and through it.
function arrow(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || !event.target.closest("#search, #list")) return false;
  const links = [one("#search"), ...all("#list a")];
  const next = links[links.indexOf(event.target.closest("a, #search")) + by];
  event.preventDefault();
  next?.focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    document.activeElement.blur?.();
    return;
  }
  if (event.target.matches("#search") && event.key === "ArrowDown") return void arrow(event);
  if (event.target.matches("input:not([type=range]), textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (arrow(event)) return;
  const act = Object.hasOwn(KEYS, event.key) && KEYS[event.key];
  if (!act) return;
  const pane = current();
  if (act.length && !pane) return;
  event.preventDefault();
  told(Promise.resolve(act(pane)));
});

told((async () => {
  await enter();
  const open = new URLSearchParams(location.hash.slice(1));
  if (open.get("a")) await openSession(open.get("a"), 0);
  if (open.get("b")) await openSession(open.get("b"), 1);
  await list();
  document.body.dataset.ready = "1";
})());
