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

  // Data: JSON as it is, and what takes much room deflated.

  const json = new Map();
  function dataOf(id) {
    if (!json.has(id)) json.set(id, JSON.parse(find(`#data-${id}`).textContent));
    return json.get(id);
  }
  async function inflated(id) {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }
  let loading = null;
  function plotly() {
    // The policy names this script by its hash; the browser runs no other.
    loading ??= inflated("plotly").then(text => {
      document.head.append(make("script", { textContent: text }));
      return window.Plotly;
    });
    return loading;
  }

  // Words. Plotly reads some tags in its texts: what comes from elsewhere is escaped.

  const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const wrapped = text => (text.match(/.{1,64}/gsu) ?? []).map(plain).join("<br>");
  const shortened = (text, most) => {
    const letters = [...text];
    if (letters.length <= most) return text;
    const tail = Math.floor((most - 3) / 3); // both ends of a name tell something
    return `${letters.slice(0, most - 3 - tail).join("")}...${letters.slice(-tail).join("")}`;
  };
  const digits = (value, most = 4) => Number(value.toPrecision(most)).toLocaleString("en", { maximumFractionDigits: 6 });
  function lasting(ns) {
    if (ns < 1e3) return `${ns} ns`;
    return ns < 1e6 ? `${digits(ns / 1e3)} µs` : `${digits(ns / 1e6)} ms`;
  }
  const narrow = () => root.clientWidth < 640;

  // Plots: each is drawn when it comes into view, and again when the colours change.

  const drawn = new Set();
  const configuration = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

  function layout(more) {
    const axis = { gridcolor: colour("line"), linecolor: colour("edge"), zeroline: false, automargin: true };
    const { xaxis, yaxis, ...rest } = more;
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow() ? 11 : 13, color: colour("text") },
      margin: { l: 10, r: 12, t: 8, b: 40 },
      dragmode: false,
      hovermode: "closest",
      hoverlabel: { align: "left", bgcolor: colour("raised"), bordercolor: colour("edge"), font: { color: colour("text") } },
      showlegend: false,
      ...rest,
      xaxis: { ...axis, ...xaxis },
      yaxis: { ...axis, ...yaxis },
    };
  }

  const rows = names => ({
    tickvals: names.map((_, row) => row),
    ticktext: names.map(name => plain(shortened(name, narrow() ? 16 : 34))),
    range: [names.length - 0.4, -0.6],
    showgrid: false,
    fixedrange: true,
  });

  const hovered = "%{customdata}<extra></extra>";

  function intervals(data) {
    const at = data.name.map((_, row) => row);
    const looks = { REGRESSED: ["x", "bad"], PASSED: ["circle", "good"], IMPROVED: ["circle", "good"] };
    const look = data.outcome.map(outcome => looks[outcome] ?? ["circle-open", "text"]);
    const told = data.name.map((name, row) => wrapped(`${name}: ${data.told[row]}, ${data.outcome[row]}`));
    const reach = Math.max(...data.high.map(Math.abs), ...data.low.map(Math.abs), ...data.budget) * 1.15 || 1;
    return {
      traces: [
        {
          type: "scatter", mode: "markers", x: data.budget, y: at, hovertemplate: hovered,
          customdata: data.name.map((name, row) => wrapped(`${name}: budget ${data.budget[row]}`)),
          marker: { symbol: "line-ns-open", size: 22, line: { width: 3 }, color: colour("warn") },
        },
        {
          type: "scatter", mode: "markers", x: data.change, y: at, customdata: told, hovertemplate: hovered,
          error_x: {
            type: "data", symmetric: false, thickness: 2, width: 5, color: colour("text"),
            array: data.high.map((high, row) => high - data.change[row]),
            arrayminus: data.low.map((low, row) => data.change[row] - low),
          },
          marker: {
            size: 11, symbol: look.map(([symbol]) => symbol), color: look.map(([, is]) => colour(is)),
          },
        },
      ],
      layout: layout({
        height: 90 + 30 * data.name.length,
        xaxis: {
          range: [Math.min(-reach / 4, ...data.low.map(low => low * 1.15)), reach], fixedrange: true,
          title: { text: narrow() ? "% or pp of a step" : "change, % or percentage points of the baseline's step; | budget" },
        },
        yaxis: rows(data.name),
        shapes: [{ type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: colour("edge"), dash: "dot" } }],
      }),
    };
  }

  function runs(data, state) {
    const metric = data.metrics[state.metric];
    const symbols = { baseline: "circle-open", "other commit": "square-open", candidate: "diamond" };
    const unit = metric.unit ? ` ${metric.unit}` : "";
    const traces = data.sides.map((side, row) => {
      const values = metric.values[row];
      const aside = new Set(metric.aside[row]);
      return {
        type: "scatter", mode: "markers", x: values, y: values.map(() => row), hovertemplate: hovered,
        customdata: values.map((value, n) => wrapped(
          `${side}, run ${n + 1}: ${digits(value, 6)}${unit}${aside.has(n) ? ", set aside" : ""}`)),
        marker: {
          symbol: values.map((_, n) => (aside.has(n) ? "x-thin-open" : symbols[side])), size: 11, opacity: 0.85,
          line: { width: 2 }, color: colour(side === "candidate" ? "link" : "edge"),
        },
      };
    });
    data.sides.forEach((_, row) => {
      const aside = new Set(metric.aside[row]);
      const sorted = metric.values[row].filter((_, n) => !aside.has(n)).sort((a, b) => a - b);
      if (!sorted.length) return;
      const middle = (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
      traces.push({
        type: "scatter", mode: "lines", x: [middle, middle], y: [row - 0.35, row + 0.35], hoverinfo: "skip",
        line: { color: colour("text"), width: 2 },
      });
    });
    return {
      traces,
      layout: layout({
        height: 80 + 40 * data.sides.length,
        xaxis: { title: { text: `${metric.name}, a dot a run, | median` }, fixedrange: true },
        yaxis: rows(data.sides),
      }),
    };
  }

  function history(data) {
    const at = data.step_ms.map((_, n) => n);
    const x = [], y = [];
    for (const n of at) {
      if (n && !data.joined[n]) { x.push(null); y.push(null); }
      x.push(n); y.push(data.step_ms[n]);
    }
    const every = Math.ceil(at.length / (narrow() ? 3 : 8));
    const ticks = at.filter(n => n % every === 0);
    return {
      traces: [
        { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", line: { color: colour("link"), width: 2, shape: "hv" } },
        {
          type: "scatter", mode: "markers", x: at, y: data.step_ms, hovertemplate: hovered,
          customdata: at.map(n => wrapped(
            `${digits(data.step_ms[n], 5)} ms, ${data.at[n]}, ${data.commit[n]}, ${data.by[n]}: ${data.reason[n]}`)),
          marker: { size: 9, color: colour("link") },
        },
      ],
      layout: layout({
        height: 230,
        xaxis: { tickvals: ticks, ticktext: ticks.map(n => data.at[n].slice(0, 10)), showgrid: false, fixedrange: true },
        yaxis: { title: { text: "step_ms" }, rangemode: "tozero", fixedrange: true },
      }),
    };
  }

  // The timeline: a lane a trace, so that colour and pattern are the lane's.

  function unpacked(text) {
    const told = JSON.parse(text);
    const lanes = [], sides = [];
    for (const view of told.views) {
      sides.push({ name: view.side, label: view.label, length: view.length, first: lanes.length + sides.length });
      for (const lane of view.lanes) {
        let at = 0;
        const bars = lane.start.map((gap, n) => {
          const start = at + gap;
          at = start + lane.length[n];
          return {
            start, length: lane.length[n], name: told.names[lane.name[n]],
            count: lane.count[n] ?? 1, busy: lane.busy[n] ?? lane.length[n],
          };
        });
        lanes.push({ ...lane, bars, side: view.side, row: lanes.length + sides.length });
      }
    }
    return { lanes, sides, rows: lanes.length + sides.length, length: Math.max(...told.views.map(view => view.length)) };
  }

  function barTold(bar) {
    const many = bar.count > 1 ? `, the longest of ${bar.count.toLocaleString("en")} that lasted ${lasting(bar.busy)} together` : "";
    return `${bar.name}: ${lasting(bar.length)} at ${lasting(bar.start)}${many}`;
  }

  // Bars that are wide enough are set apart by a line between them; the others are drawn by theirs, so that none is lost.
  function edges(lane, { range: [low, high], factor }) {
    const own = colour(lane.kind), apart = lane.kind === "idle" ? own : colour("ground"), wide = (high - low) * factor * 0.004;
    return lane.bars.map(bar => (bar.length >= wide ? apart : own));
  }

  function timeline(step, state) {
    const [unit, factor] = step.length < 1e6 ? ["µs", 1e3] : ["ms", 1e6];
    state.factor = factor;
    state.range ??= [0, (step.length * 1.005) / factor];
    const patterns = { nccl: "x", copy: "\\", memset: ".", graph: "|" };
    const traces = step.lanes.map(lane => ({
      type: "bar", orientation: "h", width: 0.8,
      base: lane.bars.map(bar => bar.start / factor), x: lane.bars.map(bar => bar.length / factor),
      y: lane.bars.map(() => lane.row),
      customdata: lane.bars.map(bar => wrapped(barTold(bar))), hovertemplate: hovered,
      marker: {
        color: colour(lane.kind), line: { width: 1, color: edges(lane, state) },
        pattern: lane.kind === "idle"
          ? { shape: "/", size: 6, solidity: 0.35, fgcolor: colour("idle"), bgcolor: colour("raised") }
          : { shape: patterns[lane.kind] ?? "", size: 6, solidity: 0.3, fgcolor: colour("ground"), bgcolor: colour(lane.kind) },
      },
      ...(lane.kind === "range" && lane.bars.length < 60
        ? { text: lane.bars.map(bar => plain(shortened(bar.name, 40))), textposition: "inside", insidetextanchor: "start",
            textangle: 0, insidetextfont: { color: colour("ground") } }
        : {}),
    }));
    const titles = new Array(step.rows).fill("");
    for (const side of step.sides) titles[side.first] = plain(side.name.toUpperCase());
    for (const lane of step.lanes) titles[lane.row] = plain(shortened(lane.title, narrow() ? 18 : 34));
    return {
      traces,
      layout: layout({
        height: 70 + 24 * step.rows,
        barmode: "overlay",
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "pan",
        uniformtext: { mode: "hide", minsize: 10 },
        xaxis: {
          range: [...state.range], title: { text: `${unit} of the step${narrow() ? "" : "; dotted: its completion"}` },
          minallowed: 0, maxallowed: (step.length * 1.01) / factor,
        },
        yaxis: { ...rows(titles), ticktext: titles },
        shapes: step.sides.map((side, n) => ({
          type: "line", x0: side.length / factor, x1: side.length / factor, y0: side.first - 0.4,
          y1: (step.sides[n + 1]?.first ?? step.rows) - 0.6, line: { color: colour("text"), dash: "dot", width: 1.5 },
        })),
      }),
    };
  }

  function timelineTools(figure, canvas, step, state) {
    const readout = make("output", { className: "readout" });
    readout.setAttribute("aria-live", "polite");
    function show(range) {
      const told = step.lanes.map(one => edges(one, { range, factor: state.factor }));
      const changed = told.flatMap((one, n) => (one.every((is, k) => is === canvas.data[n].marker.line.color[k]) ? [] : [n]));
      const axis = { "xaxis.range": range };
      if (!changed.length) return window.Plotly.relayout(canvas, axis);
      return window.Plotly.update(canvas, { "marker.line.color": changed.map(n => told[n]) }, axis, changed);
    }
    const most = () => (step.length * 1.005) / state.factor;
    function within(low, high) {
      const width = Math.min(high - low, most());
      const from = Math.min(Math.max(low, 0), most() - width);
      return [from, from + width];
    }
    function zoom(by, at = 0.5) {
      const [low, high] = state.range;
      const width = Math.max((high - low) * by, most() / 1e6), pin = low + (high - low) * at;
      return show(within(pin - width * at, pin + width * (1 - at)));
    }
    function pan(by) {
      const [low, high] = state.range, moved = (high - low) * by;
      return show(within(low + moved, high + moved));
    }
    const whole = () => show([0, most()]);
    const lane = make("select");
    lane.setAttribute("aria-label", "Lane");
    step.lanes.forEach((one, n) => lane.append(make("option", { value: n, textContent: `${one.side}: ${one.title} (${one.kind})` })));
    let bar = -1;
    lane.addEventListener("change", () => { bar = -1; walk(1); });
    async function walk(by, to = null) {
      const { bars } = step.lanes[lane.value];
      if (!bars.length) { readout.textContent = "This lane is empty."; return; }
      bar = Math.min(Math.max(to ?? bar + by, 0), bars.length - 1);
      const one = bars[bar], middle = (one.start + one.length / 2) / state.factor, [low, high] = state.range;
      if (middle < low || middle > high) await show(within(middle - (high - low) / 2, middle + (high - low) / 2));
      readout.textContent = `${barTold(one)} (${bar + 1} of ${bars.length})`;
      window.Plotly.Fx.hover(canvas, [{ curveNumber: Number(lane.value), pointNumber: bar }]);
    }
    function stepLane(by) {
      lane.value = Math.min(Math.max(Number(lane.value) + by, 0), step.lanes.length - 1);
      bar = -1;
      walk(1);
    }
    const button = (text, act) => {
      const made = make("button", { type: "button", textContent: text });
      made.addEventListener("click", act);
      return made;
    };
    const tools = make("div", { className: "tools" },
      button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)),
      button("Earlier", () => pan(-0.5)), button("Later", () => pan(0.5)), button("Whole step", whole),
      lane, button("Previous bar", () => walk(-1)), button("Next bar", () => walk(1)));
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Timeline");
    const stage = make("div", { tabIndex: 0, className: "stage" });
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-label", "Timeline. Keys: plus and minus zoom, left and right pan, up and down choose a lane, "
      + "Home and End go to its first and last bar, N and P to the next and previous, 0 shows the whole step.");
    canvas.before(tools, stage);
    stage.append(canvas);
    stage.after(make("p", { className: "dim", textContent: "Drag to pan, Ctrl and the wheel to zoom; keys: + - ← → ↑ ↓ Home End n p 0." }), readout);
    const keys = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: whole, ArrowLeft: () => pan(-0.25),
      ArrowRight: () => pan(0.25), ArrowUp: () => stepLane(-1), ArrowDown: () => stepLane(1),
      Home: () => walk(0, 0), End: () => walk(0, Infinity), n: () => walk(1), p: () => walk(-1),
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
    for (const moved of ["plotly_relayout", "plotly_update"]) {
      canvas.on(moved, () => { state.range = canvas.layout.xaxis.range.map(Number); });
    }
    canvas.on("plotly_click", event => {
      const { curveNumber, pointNumber } = event.points[0];
      lane.value = curveNumber;
      walk(0, pointNumber);
    });
  }

  function runsTools(canvas, data, state, draw) {
    const choice = make("select");
    data.metrics.forEach((metric, n) => choice.append(make("option", { value: n, textContent: metric.name })));
    choice.addEventListener("change", () => { state.metric = Number(choice.value); draw(); });
    canvas.before(make("div", { className: "tools" }, make("label", {}, "Metric ", choice)));
  }

  async function place(figure) {
    const canvas = find(".canvas", figure), what = figure.dataset.plot, id = figure.dataset.of;
    const state = { metric: 0, range: null };
    try {
      const library = await plotly();
      const data = what === "timeline" ? unpacked(await inflated(`steps-${id}`)) : dataOf(id)[what];
      const picture = () => ({ intervals, runs, history, timeline })[what](data, state);
      const draw = () => { const told = picture(); return library.react(canvas, told.traces, told.layout, configuration); };
      const told = picture();
      await library.newPlot(canvas, told.traces, told.layout, configuration);
      if (what === "timeline") timelineTools(figure, canvas, data, state);
      if (what === "runs") runsTools(canvas, data, state, draw);
      drawn.add({ draw });
      figure.dataset.drawn = "yes";
    } catch (error) {
      const trouble = make("p", { className: "trouble", textContent: "This plot could not be drawn in this browser; the table holds its numbers." });
      canvas.replaceWith(trouble);
      console.error(error);
    }
  }

  const heights = {
    intervals: count => 90 + 30 * count, runs: count => 80 + 40 * count, history: () => 230, timeline: count => 70 + 24 * count,
  };
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
      canvas.style.minHeight = `${heights[figure.dataset.plot](Number(canvas.dataset.rows))}px`;
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
