// The words for where an occurrence stands, in the order of its life. No DOM and no request may enter here.

export const WAITING = ["scheduled", "held", "paused", "faulted"];
export const IN_FLIGHT = ["dispatched", "running", "retrying"];
export const ENDED = ["succeeded", "skipped", "cancelled", "dead"];
export const STATES = [...WAITING, ...IN_FLIGHT, ...ENDED];

/** What each word means, for who points at it. */
export const MEANINGS = {
  scheduled: "waits for its time",
  held: "due, and waits at a gate: a paused queue, a limit, or a key that is taken",
  paused: "is not fired until somebody resumes it",
  faulted: "a decision about it failed; nothing happens to it until it is scheduled anew",
  dispatched: "handed out, not yet claimed by a worker",
  running: "a worker holds it",
  retrying: "an attempt failed; the next one is to come",
  succeeded: "its handler returned",
  skipped: "missed or overlapped, and left out as its schedule says",
  cancelled: "taken back before it ran",
  dead: "given up on",
};

/** How a task in that state looks: good, warn, bad or none. */
export const LEVELS = {
  scheduled: "good", dispatched: "good", running: "good", succeeded: "good",
  held: "warn", paused: "warn", retrying: "warn",
  faulted: "bad", dead: "bad",
  skipped: "none", cancelled: "none",
};
