"use strict";
(() => {
  const root = document.documentElement;
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  // Colours: the reader's choice, or the system's.

  const theme = find("#theme");
  const kept = {
    get() { try { return localStorage.getItem("perfgate-theme") ?? ""; } catch { return ""; } },
    set(value) { try { localStorage.setItem("perfgate-theme", value); } catch { /* a file may have no storage */ } },
  };
  function dress(value) {
    if (value) root.dataset.theme = value; else delete root.dataset.theme;
    for (const plot of drawn) plot.draw();
  }
  const colour = name => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // Plots: figures as Plotly reads them, deflated; each is drawn when it comes into view.

  async function inflated(id) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }
  const figures = new Map();
  const figuresOf = id => {
    if (!figures.has(id)) figures.set(id, inflated(id).then(JSON.parse));
    return figures.get(id);
  };
  let loading = null;
  function plotly() {
    // The policy names this script by its hash; the browser runs no other.
    loading ??= inflated("plotly").then(text => {
      document.head.append(make("script", { textContent: text }));
      return window.Plotly;
    });
    return loading;
  }

  const drawn = new Set();
  const narrow = () => root.clientWidth < 640;
  const configuration = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

  // The figure with the colours of the theme: `var(--kernel)` is the style's variable.
  function dressed(value) {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value.slice(6, -1)) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(dressed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, name === "customdata" ? one : dressed(one)]));
  }

  const short = text => (text.length > 18 ? `${text.slice(0, 10)}...${text.slice(-5)}` : text);
  function picture(figure, state) {
    const { data, layout } = dressed(figure);
    if (narrow()) {
      layout.font.size = 11;
      if (layout.yaxis.ticktext) layout.yaxis.ticktext = layout.yaxis.ticktext.map(short);
      if (layout.xaxis.title) layout.xaxis.title.text = layout.xaxis.title.text.split(/[,;]/)[0];
    }
    if (layout.dragmode && matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
    if (state.range) layout.xaxis.range = [...state.range];
    if (figure.choices) {
      for (const trace of data) trace.visible = trace.meta === state.choice;
      layout.xaxis.title.text = `${figure.choices[state.choice]}, ${layout.xaxis.title.text}`;
    }
    return [data, layout];
  }

  function choose(canvas, figure, state, draw) {
    const choice = make("select");
    figure.choices.forEach((name, n) => choice.append(make("option", { value: n, textContent: name })));
    choice.addEventListener("change", () => { state.choice = Number(choice.value); draw(); });
    canvas.before(make("div", { className: "tools" }, make("label", {}, "Metric ", choice)));
  }

  // The timeline zooms and pans: by buttons, keys, dragging, and the wheel with Ctrl.
  function move(canvas, figure, state) {
    const [, most] = figure.layout.xaxis.range;
    state.range = [0, most];
    const show = (low, width) => {
      const wide = Math.min(Math.max(width, most / 1e6), most), from = Math.min(Math.max(low, 0), most - wide);
      return window.Plotly.relayout(canvas, { "xaxis.range": [from, from + wide] });
    };
    const zoom = (by, at = 0.5) => {
      const [low, high] = state.range, width = Math.min((high - low) * by, most);
      return show(low + (high - low) * at - width * at, width);
    };
    const pan = by => show(state.range[0] + (state.range[1] - state.range[0]) * by, state.range[1] - state.range[0]);
    const whole = () => show(0, most);
    const button = (text, act) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", act);
      return made;
    };
    const tools = make("div", { className: "tools" },
      button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)),
      button("Earlier", () => pan(-0.5)), button("Later", () => pan(0.5)), button("Whole step", whole));
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Timeline");
    const stage = make("div", { tabIndex: 0, className: "stage" });
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-label", "Timeline. Keys: plus and minus zoom, left and right pan, 0 shows the whole step.");
    canvas.before(tools, stage);
    stage.append(canvas);
    stage.after(make("p", { className: "dim", textContent: "Drag to pan, Ctrl and the wheel to zoom; keys: + - ← → 0." }));
    const keys = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: whole,
      ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25),
    };
    stage.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
    let turned = 0;
    stage.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { _offset: left, _length: width } = canvas._fullLayout.xaxis;
      const at = Math.min(Math.max((event.clientX - canvas.getBoundingClientRect().left - left) / width, 0), 1);
      if (!turned) requestAnimationFrame(() => { const by = turned; turned = 0; zoom(Math.exp(by / 300), at); });
      turned += Math.max(-300, Math.min(event.deltaY, 300));
    }, { passive: false });
    canvas.on("plotly_relayout", () => { state.range = canvas.layout.xaxis.range.map(Number); });
  }

  async function place(element) {
    const canvas = find(".canvas", element), plot = element.dataset.plot, id = element.dataset.of;
    const state = { choice: 0, range: null };
    try {
      const [library, all] = await Promise.all([plotly(), figuresOf(`${plot === "timeline" ? "steps" : "plots"}-${id}`)]);
      const figure = all[plot];
      const draw = () => library.react(canvas, ...picture(figure, state), configuration);
      await library.newPlot(canvas, ...picture(figure, state), configuration);
      if (plot === "timeline") move(canvas, figure, state);
      if (figure.choices) choose(canvas, figure, state, draw);
      drawn.add({ draw });
      element.dataset.drawn = "yes";
    } catch (error) {
      const trouble = make("p", { className: "trouble", textContent: "This plot could not be drawn in this browser; the table holds its numbers." });
      canvas.replaceWith(trouble);
      console.error(error);
    }
  }

  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      place(entry.target);
    }
  }, { rootMargin: "150px" });

  // Tables: a click on a head sorts by it; rows below the line stay there.

  function sortable(table) {
    table.classList.remove("sortable");
    const heads = all("thead th", table), body = table.tBodies[0];
    const keyOf = (row, column) => {
      const cell = row.cells[column];
      const told = cell.dataset.by;
      return told === undefined ? cell.textContent.trim().toLowerCase() : Number(told);
    };
    heads.forEach((head, column) => {
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numeric = [...body.rows].some(row => row.cells[column].dataset.by !== undefined);
        const first = numeric && column ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const keyed = [...body.rows].map(row => [keyOf(row, column), row]);
        keyed.sort(([a], [b]) => {
          if (a === "" || b === "") return (a === "") - (b === ""); // what is not known stays below
          return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
        });
        body.append(...keyed.map(([, row]) => row));
      });
    });
  }

  function labelled(table) {
    // On a phone each row is a block, in which a cell says of itself what its column's head would.
    const titles = all("thead th", table).map(head => head.textContent.trim());
    table.setAttribute("role", "table");
    for (const row of all("tbody tr, tfoot tr", table)) {
      [...row.cells].forEach((cell, column) => { if (column) cell.dataset.is = titles[column]; });
    }
  }

  function reachable(box) {
    // A box that scrolls must be reached by the keyboard.
    if (box.scrollWidth <= box.clientWidth + 1) { box.removeAttribute("tabindex"); return; }
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", find("caption", box).textContent);
  }
  const sized = new ResizeObserver(entries => { for (const entry of entries) reachable(entry.target); });

  function ready(details) {
    // What needs a script is made ready when its section is opened: a page may hold a hundred.
    if (details.dataset.ready) return;
    details.dataset.ready = "yes";
    for (const table of all("table", details)) labelled(table);
    for (const table of all("table.sortable", details)) sortable(table);
    for (const box of all(".scroll", details)) sized.observe(box);
    for (const figure of all("figure.plot", details)) {
      const canvas = find(".canvas", figure);
      canvas.style.minHeight = `${canvas.dataset.height}px`;
      seen.observe(figure);
    }
  }
  for (const details of all("details.workload")) {
    if (details.open) ready(details);
    details.addEventListener("toggle", () => { if (details.open) ready(details); });
  }
  for (const table of all("table")) if (!table.closest("details.workload")) labelled(table);
  for (const table of all("table.overview.sortable")) sortable(table);
  for (const box of all(".scroll")) if (!box.closest("details.workload")) sized.observe(box);

  // Filter, by name and outcome; the sections follow the overview.

  const search = find("#search"), boxes = all('input[name="outcome"]'), lines = all(".overview tbody tr").map(row => {
    const link = find("a", row);
    return {
      row, section: document.getElementById(link.hash.slice(1)), name: link.textContent.toLowerCase(),
      outcome: find(".badge", row).lastChild.textContent.trim(),
    };
  });
  function filter() {
    const text = search.value.trim().toLowerCase(), wanted = new Set(boxes.filter(box => box.checked).map(box => box.value));
    let shown = 0;
    for (const line of lines) {
      const keep = wanted.has(line.outcome) && line.name.includes(text);
      line.row.hidden = line.section.hidden = !keep;
      shown += keep;
    }
    find("#found").textContent = `${shown} of ${lines.length} workloads shown`;
  }
  if (search) {
    search.addEventListener("input", filter);
    for (const box of boxes) box.addEventListener("change", filter);
    filter();
  }

  // Links to a section open it.

  function follow() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target || !target.matches("details.workload")) return;
    if (target.hidden) {
      search.value = "";
      for (const box of boxes) box.checked = true;
      filter();
    }
    target.open = true;
    ready(target);
    find("summary", target).focus({ preventScroll: true });
    target.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  addEventListener("load", () => setTimeout(follow)); // after the browser's own, which takes the focus away
  document.addEventListener("click", event => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });

  // Commands to copy.

  document.addEventListener("click", async event => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const code = find("code", button.parentElement);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  theme.value = kept.get();
  if (theme.value) dress(theme.value);
  theme.addEventListener("change", () => { kept.set(theme.value); dress(theme.value); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress(theme.value));
})();
