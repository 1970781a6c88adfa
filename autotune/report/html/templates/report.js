"use strict";
/* Draws the figures in the page's colours, and filters and sorts the table of trials. */

(function figures() {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const plots = document.querySelectorAll("[data-figure]");
  const family = getComputedStyle(document.body).fontFamily;

  const spareWidth = 600, spare = 40; /* a legend on one row leaves that much of the room kept for four */

  function inColours(value, style) {
    if (Array.isArray(value)) return value.map((item) => inColours(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inColours(item, style)]));
    }
    const name = typeof value === "string" && /^var\((--[\w-]+)\)$/.exec(value);
    return name ? style.getPropertyValue(name[1]).trim() : value;
  }

  function onPaper(plot, width) {
    if (plot.closest(".rung")) return Math.floor((width - 32) / 3);
    return plot.closest(".pair") ? Math.floor((width - 16) / 2) : width;
  }

  function draw(width) {
    const style = getComputedStyle(document.documentElement);
    for (const plot of plots) {
      const spec = inColours(specs[plot.dataset.figure], style);
      spec.layout.font.family = family;
      if (width) spec.layout.width = onPaper(plot, width);
      if (spec.layout.legend.yref === "container" && plot.clientWidth > spareWidth) {
        spec.layout.height -= spare;
        spec.layout.margin.b -= spare;
      }
      plot.style.minHeight = `${spec.layout.height}px`;
      Plotly.react(plot, spec.data, spec.layout, { responsive: true, displayModeBar: false });
    }
  }

  const printWidth = 672; /* A4 less its margins, at 96 pixels an inch */
  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      opened.push(details);
    }
    draw(printWidth);
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened.splice(0)) details.open = false;
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  draw();
})();

(function trials() {
  const table = document.getElementById("trial-table");
  if (!table) return;
  const firstShown = 50;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, text: row.textContent.toLowerCase() }));
  const text = document.getElementById("filter-text");
  const stage = document.getElementById("filter-stage");
  const outcome = document.getElementById("filter-outcome");
  const count = document.getElementById("trial-count");
  const more = document.getElementById("show-all");
  let all = false;

  function matches({ row, text: content }, words) {
    if (stage.value && row.dataset.stage !== stage.value) return false;
    if (outcome.value && !row.dataset.is.split(" ").includes(outcome.value)) return false;
    return words.every((word) => content.includes(word));
  }

  function show() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const one of rows) {
      const is = matches(one, words);
      found += is;
      one.row.classList.toggle("filtered", !is);
      one.row.classList.toggle("beyond", is && !all && found > firstShown);
    }
    const shown = all ? found : Math.min(found, firstShown);
    const of = found === rows.length ? `${found} trials` : `${found} matching of ${rows.length} trials`;
    count.textContent = shown < found ? `${shown} shown of ${of}` : of;
    more.hidden = shown === found;
    more.textContent = `Show all ${found}`;
  }

  function valueOf(row, column) {
    const value = row.cells[column].dataset.value;
    if (value === undefined) return null;
    const number = Number(value);
    return Number.isNaN(number) ? value : number;
  }

  function sortBy(button) {
    const heading = button.closest("th");
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const column = heading.cellIndex;
    rows.sort((left, right) => {
      const a = valueOf(left.row, column), b = valueOf(right.row, column);
      if (a === null || b === null) return (a === null) - (b === null);
      const order = a < b ? -1 : a > b ? 1 : 0;
      return down ? -order : order;
    });
    body.append(...rows.map(({ row }) => row));
    show();
  }

  for (const control of [text, stage, outcome]) control.addEventListener("input", show);
  text.form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => { all = true; show(); });
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) sortBy(button);
  });
  for (const link of document.querySelectorAll("[data-filter]")) {
    link.addEventListener("click", () => {
      outcome.value = link.dataset.filter;
      stage.value = text.value = "";
      show();
    });
  }
  show();
})();
