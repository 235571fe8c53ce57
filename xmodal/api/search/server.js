// The page of an index. Its address is its state: ?q=WORDS or ?like=KIND:ROW, &find=KIND, and #ROW
// of the image that is open. A picture to search by is kept while the page is open.
"use strict";

const $ = (id) => document.getElementById(id);
const index = JSON.parse(document.body.dataset.index);
const TOP = 200, STEP = 60, PLURAL = {image: "images", caption: "captions"};
const pictures = new Map();
let hits = [], kind = "", shown = null;

const short = (item) => /^(\/|[A-Z]:\\)/.test(item) ? item.split(/[/\\]/).pop() : item;
const count = (number, kind) => `${number.toLocaleString("en")} ${number === 1 ? kind : PLURAL[kind]}`;
const image = (size, row) => `${size}/${row}?v=${index.version}`;
const address = (wanted) => "?" + new URLSearchParams(wanted);

// What the address asks for, and the request that answers it.
function read() {
  const given = new URLSearchParams(location.search), picture = pictures.get(history.state?.picture);
  const words = given.get("q")?.trim(), like = given.get("like"), name = given.get("picture");
  const from = words ? "caption" : name !== null ? "image" : like?.split(":")[0];
  const kinds = Object.keys(index.kinds).filter((each) => index.sameKind || each !== from);
  const find = kinds.includes(given.get("find")) ? given.get("find") : kinds[0] ?? Object.keys(index.kinds)[0];
  const options = `top=${TOP}&find=${find}`;
  let request = null;
  if (words) request = [`search?text=${encodeURIComponent(words)}&${options}`];
  else if (picture) request = [`search?${options}`, {method: "POST", body: picture.file}];
  else if (like) request = [`similar/${like.replace(":", "/")}?${options}`];
  return {words, like, name, picture, kinds, find, request, given};
}

function go(wanted, state = null) {
  history.pushState(state, "", wanted);
  route();
}

async function route() {
  const key = location.search + history.state?.picture;
  if (key !== shown) {
    shown = key;
    await search(key);
  }
  if (key === shown) view();
}

async function search(key) {
  const asked = read();
  $("words").value = asked.words ?? "";
  $("hits").ariaBusy = "true";
  let found = {hits: index.samples};
  if (asked.request) {
    const wait = setTimeout(() => { $("status").textContent = "Searching …"; }, 300);
    try {
      found = await (await fetch(...asked.request)).json();
    } catch {
      found = {error: "The server does not answer: is it still running?"};
    }
    clearTimeout(wait);
    if (key !== shown) return;  // A later search has begun.
  }
  hits = found.hits ?? [];
  kind = asked.find;
  showQuery(asked, found);
  $("hits").ariaBusy = "false";
  $("hits").replaceChildren();
  showMore();
  scrollTo(0, 0);
}

function showQuery({words, like, name, picture, kinds, find, request, given}, found) {
  const isImage = like?.startsWith("image:") && index.pictures;
  const label = found.query && like ? short(found.query) : name;
  $("asked").hidden = !(like || picture);
  $("asked").lastElementChild.textContent = label ? `Similar to ${label}` : "";
  $("asked").firstElementChild.hidden = !(isImage || picture);
  $("asked").firstElementChild.src = picture?.data ?? (isImage ? image("thumbnail", like.slice(6)) : "data:,");
  const title = document.querySelector("h1").textContent;
  document.title = words || label ? `${words || label} – ${title}` : title;
  $("kinds").hidden = kinds.length < 2 || !request;
  $("kinds").replaceChildren(...kinds.map((each) => {
    const link = document.createElement("a");
    given.set("find", each);
    link.href = address(given);
    link.textContent = each === "image" ? "Images" : "Captions";
    if (each === find) link.ariaCurrent = "true";
    return link;
  }));
  const all = Object.entries(index.kinds).map(([each, number]) => count(number, each)).join(" and ");
  const ways = [index.words && "describe one", $("file") && "drop, paste or choose a picture"].filter(Boolean).join(", or ");
  $("status").textContent = found.error ? `Error: ${found.error}`
    : request ? `The ${count(hits.length, find)} that fit best. Bars compare them: full is the best, empty the last.`
    : name !== null ? `The picture “${name}” is not kept: choose it again.`
    : `Search ${all}: ${ways}.`
      + (index.kinds[find] > hits.length ? " Some of them:" : "");
  $("notes").textContent = (found.notes ?? []).join(" ");
}

function showMore() {
  const start = $("hits").children.length;
  const scores = hits.map((hit) => hit.score), best = scores[0], last = scores.at(-1);
  $("hits").append(...hits.slice(start, start + STEP).map((hit) => {
    const item = $(kind).content.firstElementChild.cloneNode(true), part = (name) => item.querySelector(name);
    const open = part(".open"), picture = part("img"), name = short(hit.item);
    part(".rank").textContent = hit.rank ?? "";
    part(kind === "image" ? ".name" : ".text").textContent = name;
    part(".name").title = hit.item;
    if (picture && index.pictures) {
      picture.src = image("thumbnail", hit.row);
      picture.alt = name;
      picture.onload = () => picture.classList.toggle("tall", picture.naturalHeight > picture.naturalWidth);
      picture.onerror = () => {
        part(".text").textContent = "Moved, deleted or damaged";
        picture.remove();
      };
      open.href = `#${hit.row}`;
    } else if (picture) {
      picture.remove();
      open.remove();
    } else open.href = address({q: hit.item});
    if (index.sameKind) {
      part(".like").href = address({like: `${kind}:${hit.row}`, find: kind});
      part(".like").ariaLabel = `More like ${name}`;
    } else part(".like").remove();
    const bar = part(".bar"), share = best > last ? (hit.score - last) / (best - last) : 1;
    if (hit.rank) {
      bar.style.setProperty("--share", share);
      bar.ariaValueNow = Math.round(100 * share);
      bar.ariaValueText = bar.title = `${hit.definition} ${hit.score.toPrecision(4)}`;
    } else bar.remove();
    return item;
  }));
  $("more").hidden = $("hits").children.length >= hits.length;
}

// Opens the image of the address, or closes it.
function view() {
  const place = location.hash ? hits.findIndex((hit) => `#${hit.row}` === location.hash) : -1;
  if (place < 0 || kind !== "image" || !index.pictures) return $("viewer").close();
  const hit = hits[place], step = (by) => hits[place + by] && (() => turn(`#${hits[place + by].row}`));
  $("viewer-image").src = image("image", hit.row);
  $("viewer-image").alt = short(hit.item);
  $("viewer-name").firstElementChild.textContent = `${hit.rank ? `${hit.rank}. ` : ""}${short(hit.item)}`;
  $("viewer-name").lastElementChild.textContent = short(hit.item) === hit.item ? "" : hit.item;
  $("viewer-file").href = image("image", hit.row);
  $("viewer-like").hidden = !index.sameKind;
  $("viewer-like").href = address({like: `image:${hit.row}`, find: "image"});
  for (const [id, by] of [["previous", -1], ["next", 1]]) {
    $(id).onclick = step(by);
    $(id).disabled = !hits[place + by];
  }
  if (!$("viewer").open) $("viewer").showModal();
}

function turn(hash) {
  history.replaceState(history.state, "", hash);
  view();
}

function leave() {
  if (!location.hash) return;
  const last = document.querySelector(`.open[href="${location.hash}"]`);
  if (history.state?.opened) history.back();
  else history.replaceState(history.state, "", location.pathname + location.search);
  last?.focus();
}

async function searchBy(file) {
  if (!$("file") || !file?.type.startsWith("image/")) return;
  const reader = new FileReader(), number = pictures.size + 1;
  await new Promise((done) => { reader.onload = done; reader.readAsDataURL(file); });
  pictures.set(number, {file, data: reader.result});
  go(address({picture: file.name}), {picture: number});
}

// Arrows move between results, to the nearest one above or below.
function move(key) {
  const links = [...document.querySelectorAll(".open, .hit:not(:has(.open)) .like")];
  const at = links.indexOf(document.activeElement.closest(".hit")?.querySelector(".open, .like"));
  if (at < 0) return key === "ArrowDown" && document.activeElement === $("words") && links[0];
  if (key === "ArrowLeft") return links[at - 1];
  if (key === "ArrowRight") return links[at + 1];
  const top = (link) => link.closest(".hit").offsetTop, columns = links.filter((each) => top(each) === top(links[0])).length;
  if (key === "ArrowUp") return links[at - columns] ?? $("words");
  return key === "ArrowDown" && (links[at + columns] ?? links.at(-1));
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if ($("viewer").open) {
    if (event.key === "ArrowLeft") $("previous").click();
    if (event.key === "ArrowRight") $("next").click();
  } else if (event.key === "/" && document.activeElement !== $("words")) {
    event.preventDefault();
    $("words").select();
  } else if (event.key.startsWith("Arrow")) {
    const next = move(event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a"), href = link?.getAttribute("href");
  if (!href || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const isHit = link.classList.contains("open") && href[0] === "#";
  if (href[0] !== "?" && !isHit) return;
  event.preventDefault();
  if (!isHit) $("viewer").close();
  go(href, isHit ? {...history.state, opened: true} : link.closest("#kinds") && history.state);
});

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = $("words").value.trim(), find = new URLSearchParams(location.search).get("find");
  if (words) go(address(find ? {q: words, find} : {q: words}));
});
$("file")?.addEventListener("change", (event) => {
  searchBy(event.target.files[0]);
  event.target.value = "";
});
document.addEventListener("paste", (event) => searchBy(event.clipboardData.files[0]));
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dragged", name === "dragover" && Boolean($("file")));
    if (name === "drop") searchBy(event.dataTransfer.files[0]);
  });
}
$("more").addEventListener("click", showMore);
$("close").addEventListener("click", () => $("viewer").close());
$("viewer").addEventListener("close", leave);
addEventListener("popstate", route);
route();
