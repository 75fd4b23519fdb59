// The page: the live stream and the address bar decide what is shown; here they meet.

import { setToken } from "./api.js";
import { CalendarsView } from "./calendars.js";
import { taskHref } from "./cells.js";
import { ChartsView } from "./charts.js";
import { ClusterView } from "./cluster.js";
import { byId, setText, show } from "./dom.js";
import { FailuresView } from "./failures.js";
import * as format from "./format.js";
import { Listing } from "./listing.js";
import { Live } from "./live.js";
import { listHref, Overview } from "./overview.js";
import { QueuesView } from "./queues.js";
import { RunningView } from "./running.js";
import * as sentences from "./sentences.js";
import { TaskView } from "./task.js";

const page = {
  state: "connecting",
  reason: "",
  paused: false,
  trouble: false, // the server is there, and cannot answer
  status: null,
  heardAt: 0, // of the status shown, by this machine's clock
};
const overview = new Overview(byId("overview"), (start, end) => {
  location.hash = listHref({ start, end });
});
const taskView = new TaskView(byId("task"));
const listing = new Listing(byId("listing"));
/** By the first word of the address; a panel asks for itself when it is told that time has passed. */
const panels = {
  failures: new FailuresView(byId("failures")),
  queues: new QueuesView(byId("queues")),
  running: new RunningView(byId("runs")),
  charts: new ChartsView(byId("charts")),
  cluster: new ClusterView(byId("cluster")),
};
const calendarsView = new CalendarsView(byId("calendars"));
const views = { ...panels, task: taskView, list: listing, calendars: calendarsView };
let shown = overview;

// --------------------------------------------------------------------------- what comes in

const live = new Live({
  onEvent(name, data) {
    if (name === "problem") return troubled(data);
    if (name !== "status") return;
    page.trouble = false;
    page.status = data;
    if (page.paused) return;
    notice("");
    page.heardAt = Date.now();
    if (!document.hidden) update();
    showLive();
  },
  onState(state, reason) {
    Object.assign(page, { state, reason });
    if (state === "live") notice("");
    if (state !== "live") page.trouble = false;
    if (state === "lost") showLost();
    showLive();
    if (state === "refused") byId("token").showModal();
  },
});

/** The server says why it has no answer: what is shown is old, or there is nothing yet. */
function troubled({ title, detail }) {
  page.trouble = true;
  notice(`${title}: ${detail}`);
  if (!page.status) overview.unknown(detail);
  showLive();
}

function update() {
  if (!page.status) return;
  if (shown === overview) overview.update(page.status);
  else if (shown !== listing) shown.update();
  announce(sentences.lateness(page.status), sentences.truth(page.status));
}

let announced = "";

/** Say aloud when a verdict turns, not at every second. */
function announce(late, truth) {
  const levels = `${late.level} ${truth.level}`;
  if (announced && announced !== levels) setText(byId("announce"), `${late.says}. ${late.detail} ${truth.says}.`);
  announced = levels;
}

// --------------------------------------------------------------------------- live, paused, lost

function showLive() {
  const state = page.paused ? "paused" : page.state === "live" && page.trouble ? "troubled" : page.state;
  byId("live").dataset.state = state;
  byId("live").classList.toggle("behind", (page.status?.staleness_ms ?? 0) > sentences.STALE_MS);
  document.body.dataset.live = state;
  const at = page.heardAt ? format.instant(page.heardAt, Date.now()) : "";
  setText(byId("live-word"), liveWord(state, at));
  showTitle();
}

function showLost() {
  const seen = page.heardAt ? ` What you see is from ${format.instant(page.heardAt, Date.now())}.` : "";
  notice(`Not live: ${page.reason}.${seen} Trying again.`);
}

function liveWord(state, at) {
  const behind = page.status?.staleness_ms ?? 0;
  switch (state) {
    case "live": return behind > sentences.STALE_MS ? `${format.duration(behind)} behind` : "Live";
    case "troubled": return page.status ? `No answers since ${at}` : "No answers yet";
    case "paused": return `Paused at ${at}`;
    case "lost": return page.heardAt ? `Not live for ${format.duration(Date.now() - page.heardAt)}` : "Not live";
    case "refused": return "Token needed";
    default: return "Connecting…";
  }
}

function showTitle() {
  const lost = page.state === "lost" && !page.paused;
  document.title = lost || !page.status ? (lost ? "not live · tickstream" : "tickstream") : sentences.title(page.status);
}

function notice(text) {
  setText(byId("notice"), text);
  show(byId("notice"), text !== "");
}

function pause() {
  page.paused = !page.paused;
  const button = byId("pause");
  button.setAttribute("aria-pressed", page.paused);
  setText(button, page.paused ? "Go on" : "Pause");
  if (!page.paused) {
    page.heardAt = Date.now();
    update();
  }
  showLive();
}

// --------------------------------------------------------------------------- views

function route(event) {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [kind, id = ""] = path.split(/\/(.*)/s);
  shown = Object.hasOwn(views, kind) ? views[kind] : overview;
  for (const view of [overview, ...Object.values(views)]) show(view.root, view === shown);
  const here = shown === overview ? "" : kind;
  for (const link of byId("views").querySelectorAll("a")) {
    if (link.hash.replace(/^#\//, "") === here) link.ariaCurrent = "page";
    else link.removeAttribute("aria-current");
  }
  if (shown === taskView) taskView.open(decoded(id));
  if (shown === listing) listing.open(new URLSearchParams(query));
  if (shown === calendarsView) calendarsView.open(decoded(id), new URLSearchParams(query));
  if (Object.hasOwn(panels, kind)) shown.open();
  if (shown === overview) update();
  if (event) {
    window.scrollTo(0, 0);
    (shown.root.querySelector("h2[tabindex]") ?? byId("main")).focus({ preventScroll: true });
  }
}

/** Percent-encoded text; as it stands where it is none, since an address is typed by hand too. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = byId("wanted").value;
  if (wanted) location.hash = taskHref(wanted);
});

byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token-text").value);
  byId("token").close();
  live.retry();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

byId("pause").addEventListener("click", pause);

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === byId("wanted")) event.target.blur();
  if (typing) return;
  if (event.key === "/") {
    event.preventDefault();
    byId("wanted").select();
  }
  if (event.key === "p") pause();
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !page.paused) update();
});
window.addEventListener("hashchange", route);

setInterval(() => page.state === "lost" && showLive(), 1_000);
setText(byId("zone"), format.zone());
route();
live.retry();
