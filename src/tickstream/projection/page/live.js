// The live stream: /api/stream read by fetch, so that it can carry a token and a silence is noticed. No DOM.

import { request } from "./api.js";

const SILENCE_MS = 4_000; // a status comes every second; four missing ones are a silence
const RETRY_MS = [500, 1_000, 2_000, 3_000];

/**
 * Keeps a stream open for ever.
 *
 * `onEvent(name, data)`: an event. `onState(state, detail)`: "live" with the first event, "lost" when the
 * stream ended or went silent, "refused" when the server wants a token; then call `retry()`.
 */
export class Live {
  constructor({ onEvent, onState }) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.live = false;
    this.failures = 0;
    this.abort = null;
    this.timer = 0;
  }

  /** Open the stream, now. */
  async retry() {
    clearTimeout(this.timer);
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    let failure = new Error("the server ended the stream");
    try {
      await this.#follow(abort);
    } catch (error) {
      failure = error;
    }
    if (abort !== this.abort) return; // a newer attempt has taken its place
    this.live = false;
    if (failure.status === 401) return this.onState("refused", failure.message);
    this.onState("lost", failure.message);
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    this.timer = setTimeout(() => this.retry(), wait);
  }

  async #follow(abort) {
    let silence;
    const listen = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS);
    };
    try {
      listen();
      const response = await request("api/stream", { signal: abort.signal });
      for await (const [name, data] of events(response.body)) {
        listen();
        if (!this.live) {
          this.live = true;
          this.failures = 0;
          this.onState("live", "");
        }
        this.onEvent(name, data);
      }
    } catch (error) {
      if (abort.signal.aborted) throw new Error(`nothing came for ${SILENCE_MS / 1_000} s`);
      throw error;
    } finally {
      clearTimeout(silence);
    }
  }
}

/** [name, data] of each server-sent event of a byte stream; data is JSON. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s)));
      if (fields.data) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}
