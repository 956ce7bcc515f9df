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

  // Plots: what each is drawn from, deflated; it is drawn when it comes into view.

  async function inflated(id) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }
  const known = new Map();
  const unpacked = id => {
    if (!known.has(id)) known.set(id, inflated(id).then(JSON.parse));
    return known.get(id);
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

  // Texts: Plotly reads some tags in what it writes, and breaks no long line under the pointer.

  const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const wrapped = text => (text.match(/[^]{1,64}/gu) ?? []).map(escaped).join("<br>");
  const short = text => (narrow() && text.length > 18 ? `${text.slice(0, 10)}...${text.slice(-5)}` : text);
  const digits = (value, n = 4) => Number(value.toPrecision(n)).toString();
  const lasting = us => (us < 1 ? `${Math.round(us * 1000)} ns` : us < 1000 ? `${digits(us)} µs` : `${digits(us / 1000)} ms`);

  // Figures: from plain numbers to Plotly's traces and layout, in the colours of the theme.

  const markers = (x, y, texts, marker) => ({
    type: "scatter", mode: "markers", x, y, marker, customdata: texts.map(wrapped),
    hovertemplate: "%{customdata}<extra></extra>",
  });
  const edges = (x, y, line) => ({ type: "scatter", mode: "lines", x, y, line, hoverinfo: "skip" });
  // An axis with a line for each name, the first at the top.
  const rows = names => ({
    tickvals: [...names.keys()], ticktext: names.map(name => escaped(short(name))),
    range: [names.length - 0.4, -0.6], showgrid: false, fixedrange: true,
  });
  const titled = text => ({ title: { text: narrow() ? text.split(/[,;]/)[0] : text } });
  function layout(x, y, more = {}) {
    const axis = { gridcolor: colour("line"), linecolor: colour("edge"), zeroline: false, automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 10, r: 12, t: 8, b: 40 },
      font: { family: "system-ui, sans-serif", size: narrow() ? 11 : 13, color: colour("text") },
      dragmode: false, hovermode: "closest", showlegend: false,
      hoverlabel: { align: "left", bgcolor: colour("raised"), bordercolor: colour("edge"), font: { color: colour("text") } },
      xaxis: { ...axis, fixedrange: true, ...x }, yaxis: { ...axis, ...y }, ...more,
    };
  }

  const looks = { REGRESSED: ["x", "bad"], PASSED: ["circle", "good"], IMPROVED: ["circle", "good"] };
  function intervals(found) {
    const of = name => found.map(one => one[name]), at = [...found.keys()], name = of("name");
    const look = found.map(one => looks[one.outcome] ?? ["circle-open", "text"]);
    const reach = 1.15 * Math.max(...["low", "high", "budget"].flatMap(of).map(Math.abs)) || 1;
    const budgets = markers(of("budget"), at, found.map(one => `${one.name}: budget ${digits(one.budget)}`), {
      symbol: "line-ns-open", size: 22, line: { width: 3 }, color: colour("warn"),
    });
    const changes = markers(of("change"), at, found.map(one => `${one.name}: ${one.text}`), {
      size: 11, symbol: look.map(([symbol]) => symbol), color: look.map(([, kind]) => colour(kind)),
    });
    changes.error_x = {
      type: "data", symmetric: false, thickness: 2, width: 5, color: colour("text"),
      array: found.map(one => one.high - one.change), arrayminus: found.map(one => one.change - one.low),
    };
    const zero = { type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: colour("edge"), dash: "dot" } };
    const range = [Math.min(-reach / 4, ...of("low").map(low => 1.15 * low)), reach];
    const title = titled("change, % or percentage points of the baseline's step; | budget");
    return [[budgets, changes], layout({ ...title, range }, rows(name), { shapes: [zero] })];
  }

  const symbols = { baseline: "circle-open", "other commit": "square-open", candidate: "diamond" };
  function runs(found, { choice }) {
    const own = found.filter(one => one.metric === choice);
    const traces = own.flatMap(({ side, values, unit, dropped, median }, line) => {
      const texts = values.map((value, n) =>
        `${side}, run ${n + 1}: ${digits(value, 6)}${unit && ` ${unit}`}${dropped.includes(n) ? ", dropped as an outlier" : ""}`);
      const dots = markers(values, values.map(() => line), texts, {
        symbol: values.map((_, n) => (dropped.includes(n) ? "x-thin-open" : symbols[side])), size: 11, opacity: 0.85,
        line: { width: 2 }, color: colour(side === "candidate" ? "link" : "edge"),
      });
      const middle = median === null ? [] : [median, median];
      return [dots, edges(middle, [line - 0.35, line + 0.35], { color: colour("text"), width: 2 })];
    });
    const title = titled(`${choice}, a dot a run, | median`);
    return [traces, layout(title, rows(own.map(one => one.side)))];
  }

  function history(points) {
    // A line leads where two can be compared.
    const steps = points.flatMap((point, n) => (n && !point.joined ? [[null, null], [n, point.value]] : [[n, point.value]]));
    const line = edges(steps.map(([n]) => n), steps.map(([, value]) => value), { color: colour("link"), width: 2, shape: "hv" });
    const values = points.map(point => point.value), at = [...points.keys()];
    const dots = markers(at, values, points.map(point => point.text), { size: 9, color: colour("link") });
    const ticks = at.filter(n => n % Math.ceil(at.length / 8) === 0);
    const x = { tickvals: ticks, ticktext: ticks.map(n => points[n].day), showgrid: false };
    return [[line, dots], layout(x, { title: { text: "step_ms" }, rangemode: "tozero", fixedrange: true })];
  }

  // One step of each side on one axis, a lane a trace; dotted: where each step ends.
  const patterns = { nccl: "x", copy: "\\", memset: ".", graph: "|", idle: "/" };
  const mostNamed = 60; // bars of a lane of ranges up to which their names are written into them
  function timeline(steps, state) {
    const longest = Math.max(...steps.map(step => step.length)), [unit, factor] = longest < 1000 ? ["µs", 1] : ["ms", 1000];
    const titles = [], traces = [], shapes = [];
    for (const step of steps) {
      const first = titles.push(step.side.toUpperCase()) - 1, end = step.length / factor;
      for (const one of step.lanes) traces.push(lane(one, titles.push(one.title) - 1, factor));
      shapes.push({
        type: "line", x0: end, x1: end, y0: first - 0.4, y1: titles.length - 0.6, line: { color: colour("text"), dash: "dot" },
      });
    }
    state.most = 1.005 * longest / factor;
    state.range ??= [0, state.most];
    const x = {
      ...titled(`${unit} of the step; dotted: its completion`), range: [...state.range], fixedrange: false,
      minallowed: 0, maxallowed: 1.01 * longest / factor,
    };
    const dragmode = matchMedia("(pointer: coarse)").matches ? false : "pan";
    return [traces, layout(x, rows(titles), { shapes, dragmode, barmode: "overlay", uniformtext: { mode: "hide", minsize: 10 } })];
  }
  function lane({ kind, bars }, line, factor) {
    const idle = kind === "idle", own = colour(kind);
    const trace = {
      type: "bar", orientation: "h", width: 0.8, y: bars.map(() => line),
      base: bars.map(([start]) => start / factor), x: bars.map(([, length]) => length / factor),
      customdata: bars.map(bar => wrapped(barText(bar))), hovertemplate: "%{customdata}<extra></extra>",
      marker: {
        // Neighbours differ in opacity, as a line between them would hide short ones.
        color: own, opacity: bars.map((_, n) => 1 - 0.22 * (n % 2)),
        pattern: {
          shape: patterns[kind] ?? "", size: 6, solidity: 0.3,
          fgcolor: idle ? own : colour("ground"), bgcolor: idle ? colour("raised") : own,
        },
      },
    };
    if (kind !== "range" || bars.length >= mostNamed) return trace;
    return {
      ...trace, text: bars.map(([, , name]) => escaped(name.slice(0, 40))), textposition: "inside", insidetextanchor: "start", textangle: 0,
      insidetextfont: { color: colour("ground") },
    };
  }
  function barText([start, length, name, count, busy]) {
    const text = `${name}: ${lasting(length)} at ${lasting(start)}`;
    return count === 1 ? text : `${text}, the longest of ${count.toLocaleString("en")} that lasted ${lasting(busy)} together`;
  }
  const figure = { intervals, runs, history, timeline };

  function choose(canvas, names, state, draw) {
    const choice = make("select");
    choice.append(...names.map(name => make("option", { value: name, textContent: name })));
    choice.addEventListener("change", () => { state.choice = choice.value; draw(); });
    canvas.before(make("div", { className: "tools" }, make("label", {}, "Metric ", choice)));
  }

  // The timeline zooms and pans: by buttons, keys, dragging, and the wheel with Ctrl.
  function move(canvas, state) {
    const { most } = state;
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
    const canvas = find(".canvas", element), { plot, of } = element.dataset;
    try {
      const [library, found] = await Promise.all([plotly(), unpacked(`${plot === "timeline" ? "steps" : "plots"}-${of}`)]);
      const own = plot === "timeline" ? found : found[plot], state = { choice: own[0].metric };
      const picture = () => {
        const [traces, of] = figure[plot](own, state);
        return [canvas, traces, { ...of, height: Number(canvas.dataset.height) }, configuration];
      };
      const draw = () => library.react(...picture());
      await library.newPlot(...picture());
      if (plot === "timeline") move(canvas, state);
      if (plot === "runs") choose(canvas, [...new Set(own.map(one => one.metric))], state, draw);
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
      const { by } = cell.dataset;
      return by === undefined ? cell.textContent.trim().toLowerCase() : Number(by);
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
