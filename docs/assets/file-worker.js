// Pages opened from a disk may start no worker, and search needs one: there, a hidden frame does
// its work. Used by scripts/site_hooks.py.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow;
    const load = (source) =>
      new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        script.src = source;
        script.onload = done;
        script.onerror = failed;
        inner.document.body.append(script);
      });
    inner.importScripts = (...sources) =>
      sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
    inner.postMessage = (data) => {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    };
    this.ready = load(url);
  }

  postMessage(data) {
    const inner = this.frame.contentWindow;
    this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
