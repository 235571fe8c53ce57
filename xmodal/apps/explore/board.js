const find = (id) => document.getElementById(id);
const table = find("board");
const heads = [...table.tHead.rows[0].cells];
const rows = [...table.tBodies[0].rows];
const valueOf = (row, column) => {
  const text = row.cells[column].dataset.value;
  return text === "" ? NaN : Number(text);
};

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
    const hidden = column > 0 && !head.textContent.toLowerCase().includes(metric);
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

function scale(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);
}

// Moves texts down until none covers another, or one that stays.
function separate(texts, fixed) {
  const placed = fixed.map((text) => text.getBBox());
  for (const text of texts) {
    let box = text.getBBox();
    const covers = (other) => box.x < other.x + other.width && other.x < box.x + box.width &&
      box.y < other.y + other.height && other.y < box.y + box.height;
    while (placed.some(covers)) {
      text.setAttribute("y", Number(text.getAttribute("y")) + box.height / 2);
      box = text.getBBox();
    }
    placed.push(box);
  }
}

function draw() {
  const plot = find("scatter");
  if (!plot) return;
  const [x, y] = ["x", "y"].map((id) => Number(find(id).value));
  const [across, up] = [x, y].map((at) => heads[at + 1].textContent);
  const points = rows.filter((row) => !row.hidden)
    .map((row) => ({ row, x: valueOf(row, x + 1), y: valueOf(row, y + 1) }))
    .filter((point) => !isNaN(point.x) && !isNaN(point.y));
  const tau = TAU[x][y];
  const words = tau === null ? "is undefined" : `is ${tau.toFixed(3)}`;
  find("tau").textContent = `Kendall's tau-b of ${across} and ${up} over the measured models ${words}.`;
  const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
  const [toX, toY] = [scale(xs, 104, 480), scale(ys, 340, 40)];
  const parts = [
    element("line", { x1: 88, y1: 360, x2: 620, y2: 360 }),
    element("line", { x1: 88, y1: 20, x2: 88, y2: 360 }),
    element("text", { x: 330, y: 402, "text-anchor": "middle" }, across),
    element("text", { x: 18, y: 190, "text-anchor": "middle", transform: "rotate(-90 18 190)" }, up),
  ];
  const ends = (values) => new Set(points.length ? [Math.min(...values), Math.max(...values)] : []);
  for (const right of ends(xs)) {
    parts.push(element("text", { x: toX(right), y: 376, "text-anchor": "middle" }, right.toFixed(1)));
  }
  for (const top of ends(ys)) {
    parts.push(element("text", { x: 82, y: toY(top) + 4, "text-anchor": "end" }, top.toFixed(1)));
  }
  const names = [];
  for (const point of points) {
    const name = point.row.cells[0].textContent;
    const circle = element("circle", { cx: toX(point.x), cy: toY(point.y), r: 5 });
    if (point.row.classList.contains("published")) circle.classList.add("published");
    circle.append(element("title", {}, `${name}: ${point.x}, ${point.y}`));
    parts.push(circle);
    names.push(element("text", { x: toX(point.x) + 9, y: toY(point.y) + 4 }, name));
  }
  plot.replaceChildren(...parts, ...names);
  separate(names, parts.filter((part) => part.tagName === "text" && !part.hasAttribute("transform")));
  plot.setAttribute("aria-label", `${points.length} models by ${across} and ${up}; ${words}`);
}

heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => sortBy(column)));
["models", "metrics", "published"].forEach((id) => find(id)?.addEventListener("input", filter));
["x", "y"].forEach((id) => find(id)?.addEventListener("change", draw));
document.querySelectorAll("form").forEach((each) => each.addEventListener("submit", (e) => e.preventDefault()));
filter();
