// The live list of the page Now. Everything that the server sends is text: it goes through textContent only.

import { clock, span } from "./times.js";

const bar = document.querySelector("[data-live]");
const body = document.querySelector("#list tbody");
const most = 50; // rows of a page

const byPlace = new Map();
if (body) for (const tr of body.rows) byPlace.set(tr.dataset.place, tr);

const waiting = { rows: new Map(), gone: new Set(), left: 0 }; // while the list is paused
let pressed = false;
let over = false;
let state = "connecting";
let leftOut = 0;

const paused = () => pressed || over;

/** fill writes an entry into a row. */
function fill(tr, entry) {
  tr.dataset.place = entry.place;
  tr.dataset.until = entry.until;
  tr.dataset.id = entry.id;
  tr.className = entry.class;
  for (const slot of tr.querySelectorAll("[data-f]")) {
    const name = slot.dataset.f;
    if (name === "since") {
      slot.dateTime = slot.title = entry.since;
      slot.textContent = clock(entry.since);
    } else {
      slot.textContent = entry[name];
    }
    if (name === "key") slot.setAttribute("href", entry.link);
  }
}

/** show shows changed entries at the top, the newest first. A row that is there stays where it is. */
function show(entries) {
  const fresh = document.createDocumentFragment();
  for (const entry of entries) {
    let tr = byPlace.get(entry.place);
    if (tr) {
      fill(tr, entry);
      continue;
    }
    tr = document.querySelector("#row").content.firstElementChild.cloneNode(true);
    fill(tr, entry);
    if (entries.length <= 10) tr.classList.add("fresh"); // painting many that fade would cost more than all else
    byPlace.set(entry.place, tr);
    fresh.append(tr);
  }
  body.prepend(fresh);
  while (body.rows.length > most) drop(body.rows[body.rows.length - 1]);
}

function drop(tr) {
  byPlace.delete(tr.dataset.place);
  tr.remove();
}

function remove(places) {
  for (const place of places) {
    const tr = byPlace.get(place);
    if (tr) drop(tr);
  }
}

function totals(sums) {
  for (const slot of document.querySelectorAll("[data-total]")) {
    slot.textContent = Number(sums[slot.dataset.total]).toLocaleString("en");
  }
}

/** figures writes the numbers of the enforcer, and draws its hour. */
function figures(numbers) {
  for (const slot of document.querySelectorAll("[data-figure]")) slot.textContent = numbers[slot.dataset.figure];
  for (const line of numbers.lines || []) {
    document.querySelector(`figure polyline.${line.class}`)?.setAttribute("points", line.points);
    document.querySelector("figure").hidden = false;
  }
}

function change(event) {
  const next = JSON.parse(event.data);
  if (next.totals) totals(next.totals);
  if (next.figures) figures(next.figures);
  if (next.again) state = "some changes are missing: load the page again";
  leftOut += next.left || 0;
  if (!paused()) {
    apply(next.rows || [], next.gone || []);
    return;
  }
  for (const place of next.gone || []) {
    waiting.rows.delete(place);
    waiting.gone.add(place);
  }
  for (const entry of (next.rows || []).reverse()) {
    waiting.gone.delete(entry.place);
    waiting.rows.delete(entry.place); // so that it is the newest
    waiting.rows.set(entry.place, entry);
    if (waiting.rows.size > most) {
      waiting.rows.delete(waiting.rows.keys().next().value);
      waiting.left++;
    }
  }
  if (waiting.gone.size > 10000) waiting.gone.clear(); // those rows go when their time is over
  status();
}

function apply(rows, gone) {
  remove(gone);
  show(rows);
  document.querySelector("[data-empty]").hidden = body.rows.length > 0;
  status();
}

/** resume shows what came while the list was paused. */
function resume() {
  if (paused()) return status();
  leftOut += waiting.left;
  apply([...waiting.rows.values()].reverse(), waiting.gone);
  waiting.rows.clear();
  waiting.gone.clear();
  waiting.left = 0;
  status();
}

let written = "";
function status() {
  let text = state;
  if (state === "live" && paused()) {
    const more = waiting.rows.size + waiting.left;
    text = `paused${pressed ? "" : " while you point at it"}${more ? `, ${more.toLocaleString("en")} new` : ""}`;
  } else if (state === "live" && leftOut) {
    text = `live, ${leftOut.toLocaleString("en")} older ones left out`;
  }
  if (text === written) return;
  written = text;
  document.querySelector("[data-status]").textContent = text;
  bar.dataset.state = state === "live" ? (paused() ? "paused" : "live") : "off";
}

/** tick writes how much time is left, and drops rows whose time is over. */
function tick() {
  const now = Date.now();
  for (const tr of [...body.rows]) {
    if (!tr.dataset.until) continue;
    const left = (new Date(tr.dataset.until) - now) / 1000;
    if (left <= -1 && !paused()) drop(tr);
    else tr.querySelector("[data-f=left]").textContent = span(left);
  }
}

/** count writes how many requests the entries have refused by now. */
async function count() {
  const ids = [...body.rows].map((tr) => tr.dataset.id);
  if (!ids.length || document.hidden) return;
  const answer = await fetch(`refused?${new URLSearchParams(ids.map((id) => ["id", id]))}`).catch(() => null);
  if (!answer?.ok) return;
  const refused = await answer.json();
  for (const tr of body.rows) {
    if (Object.hasOwn(refused, tr.dataset.id)) tr.querySelector("[data-f=refused]").textContent = refused[tr.dataset.id];
  }
}

function connect() {
  const source = new EventSource(bar.dataset.live);
  source.addEventListener("open", () => {
    state = "live";
    status();
  });
  source.addEventListener("change", change);
  source.addEventListener("ended", () => {
    source.close();
    state = "your log-in has ended: load the page again";
    status();
  });
  source.addEventListener("error", () => {
    state = source.readyState === EventSource.CLOSED ? "not live: load the page again" : "connecting";
    status();
  });
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // the back button showed an old list
  });
}

if (body) setInterval(tick, 1000);
if (body?.dataset.counted) setInterval(count, 5000);
if (bar && body) {
  bar.hidden = false;
  const button = bar.querySelector("[data-pause]");
  button.addEventListener("click", () => {
    pressed = !pressed;
    button.setAttribute("aria-pressed", pressed);
    button.textContent = pressed ? "Resume" : "Pause";
    resume();
  });
  body.addEventListener("pointerenter", (event) => {
    over = event.pointerType === "mouse";
    status();
  });
  body.addEventListener("pointerleave", () => {
    over = false;
    resume();
  });
  connect();
}

// A filter that is chosen applies at once. The form works without this.
for (const select of document.querySelectorAll(".filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
for (const form of document.querySelectorAll(".filters")) {
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });
}
