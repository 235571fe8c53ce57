const find = (id) => document.getElementById(id);
const table = find("leaderboard");
const heads = [...table.tHead.rows[0].cells];
const rows = [...table.tBodies[0].rows];
const valueOf = (row, column) => Number(row.cells[column].dataset.value);  // NaN for "nan".

function sortBy(column) {
  const head = heads[column];
  const lower = head.dataset.lower !== "0";
  const first = lower ? "ascending" : "descending";
  const last = lower ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? last : first;
  const sign = order === "ascending" ? 1 : -1;
  heads.forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  const compare = (a, b) => {
    if (column === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
    const [x, y] = [valueOf(a, column), valueOf(b, column)];
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
    return sign * (x - y);
  };
  table.tBodies[0].append(...rows.sort(compare));
}

function filter() {
  const model = find("models").value.toLowerCase();
  const metric = find("metrics").value.toLowerCase();
  const published = find("published")?.checked;
  for (const row of rows) {
    const named = row.cells[0].textContent.toLowerCase().includes(model);
    row.hidden = !named || (row.classList.contains("published") && !published);
  }
  heads.forEach((head, column) => {
    const names = `${head.textContent} ${head.firstElementChild.title}`.toLowerCase();
    const hidden = column > 0 && !names.includes(metric);
    [head, ...rows.map((row) => row.cells[column])].forEach((cell) => { cell.hidden = hidden; });
  });
  const count = rows.filter((row) => !row.hidden).length;
  find("shown").textContent = `${count} of ${rows.length} rows`;
  draw();
}

function element(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.textContent = text;
  return made;
}

// Round numbers, 1, 2 or 5 times a power of ten apart, around all limits.
function findTicks(limits) {
  const [low, high] = [Math.min(...limits), Math.max(...limits)];
  const rough = (high - low || Math.abs(high) || 1) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  const count = Math.max(last - first, 1) + 1;
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  return Array.from({ length: count }, (_, i) => ((first + i) * step).toFixed(decimals));
}

// A metric of a row: its value and the ends of its interval.
function read(row, column) {
  const cell = row.cells[column];
  const value = valueOf(row, column);
  const limits = cell.dataset.limits ? cell.dataset.limits.split(" ").map(Number) : [value, value];
  return { value, limits };
}

function draw() {
  const plot = find("scatter");
  if (!plot) return;
  const [x, y] = ["x", "y"].map((id) => Number(find(id).value));
  const [width, height] = [plot.clientWidth, plot.clientHeight];
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const points = rows.filter((row) => !row.hidden)
    .map((row) => ({ row, x: read(row, x), y: read(row, y) }))
    .filter((point) => !isNaN(point.x.value) && !isNaN(point.y.value));
  const names = [x, y].map((column) => heads[column].textContent);
  plot.setAttribute("aria-label", `${points.length} models by ${names[0]} and ${names[1]}`);
  if (!points.length) return plot.replaceChildren();
  const [left, right, top, bottom] = [56, width - 24, 40, height - 56];
  const ticks = { x: findTicks(points.flatMap((p) => p.x.limits)), y: findTicks(points.flatMap((p) => p.y.limits)) };
  const scale = (marks, from, to) => (value) =>
    from + ((value - marks[0]) / (marks.at(-1) - marks[0])) * (to - from);
  const [toX, toY] = [scale(ticks.x, left, right), scale(ticks.y, bottom, top)];
  const parts = [
    element("text", { x: left - 48, y: top - 20 }, names[1]),
    element("text", { x: right, y: bottom + 42, "text-anchor": "end" }, names[0]),
  ];
  for (const tick of ticks.x) {
    parts.push(element("line", { x1: toX(tick), x2: toX(tick), y1: top, y2: bottom }));
    parts.push(element("text", { x: toX(tick), y: bottom + 18, "text-anchor": "middle", class: "tick" }, tick));
  }
  for (const tick of ticks.y) {
    parts.push(element("line", { x1: left, x2: right, y1: toY(tick), y2: toY(tick) }));
    parts.push(element("text", { x: left - 6, y: toY(tick) + 4, "text-anchor": "end", class: "tick" }, tick));
  }
  const labels = [];
  for (const point of points) {
    const [cx, cy] = [toX(point.x.value), toY(point.y.value)];
    const [x1, x2] = point.x.limits.map(toX);
    const [y1, y2] = point.y.limits.map(toY);
    parts.push(element("line", { x1, x2, y1: cy, y2: cy, class: "interval" }));
    parts.push(element("line", { x1: cx, x2: cx, y1, y2, class: "interval" }));
    const circle = element("circle", { cx, cy, r: 4 });
    if (point.row.classList.contains("published")) circle.classList.add("published");
    parts.push(circle);
    const end = cx > (left + right) / 2;
    const name = point.row.cells[0].textContent;
    labels.push(element("text", { x: cx + (end ? -8 : 8), y: cy - 6, "text-anchor": end ? "end" : "start" }, name));
  }
  plot.replaceChildren(...parts, ...labels);
  separate(labels);
}

// Moves names down until none covers another; from the top, so that they keep the order of points.
function separate(labels) {
  const placed = [];
  for (const label of labels.sort((a, b) => a.getAttribute("y") - b.getAttribute("y"))) {
    let box = label.getBBox();
    const covers = (other) => box.x < other.x + other.width && other.x < box.x + box.width &&
      box.y < other.y + other.height && other.y < box.y + box.height;
    while (placed.some(covers)) {
      label.setAttribute("y", Number(label.getAttribute("y")) + box.height / 2);
      box = label.getBBox();
    }
    placed.push(box);
  }
}

heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => sortBy(column)));
["models", "metrics", "published"].forEach((id) => find(id)?.addEventListener("input", filter));
["x", "y"].forEach((id) => find(id)?.addEventListener("change", draw));
addEventListener("resize", draw);
document.querySelectorAll("form").forEach((each) => each.addEventListener("submit", (e) => e.preventDefault()));
filter();
