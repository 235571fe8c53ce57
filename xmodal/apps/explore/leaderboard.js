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
    const hidden = column > 0 && !head.textContent.toLowerCase().includes(metric);
    [head, ...rows.map((row) => row.cells[column])].forEach((cell) => { cell.hidden = hidden; });
  });
  const count = rows.filter((row) => !row.hidden).length;
  find("shown").textContent = `${count} of ${rows.length} rows`;
}

heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => sortBy(column)));
["models", "metrics", "published"].forEach((id) => find(id)?.addEventListener("input", filter));
document.querySelectorAll("form").forEach((each) => each.addEventListener("submit", (e) => e.preventDefault()));
filter();
